// Observers that are chosen at run time, any number of them:
//
//   VirtualObserver observers;
//   observers.add(std::make_unique<ObserverOver<TraceObserver>>(TraceObserver({.steps = 5})));
//   Executor<MyStage, Schedule, Threads<Tensor>, VirtualObserver> executor(schedule, makeStage, {}, {},
//                                                                          std::move(observers));
//
// They are called in the order they were added, from the thread of the row's worker.
#pragma once

#include "Requirements.h"

#include <memory>
#include <utility>
#include <vector>

namespace sluice::runtime {

/// Functions as in the concepts ObserverOfOps, ObserverOfWaits and ObserverOfTables; all do nothing by
/// default.
class AnyObserver {
public:
  virtual ~AnyObserver() = default;
  virtual void open(const Tables &, std::span<const uint32_t> /*local*/, uint32_t /*workers*/) {}
  virtual void onBegin(const Context &) {}
  virtual void onEnd(const Context &) {}
  virtual void onWaitBegin(uint32_t /*worker*/, uint32_t /*row*/, uint32_t /*peer*/) {}
  virtual void onWaitEnd(uint32_t /*worker*/) {}
};

template <class Observer> class ObserverOver final : public AnyObserver {
public:
  explicit ObserverOver(Observer observer = Observer()) : observer(std::move(observer)) {}
  void open(const Tables &tables, std::span<const uint32_t> local, uint32_t workers) override {
    if constexpr (ObserverOfTables<Observer>)
      observer.open(tables, local, workers);
  }
  void onBegin(const Context &c) override { observer.onBegin(c); }
  void onEnd(const Context &c) override { observer.onEnd(c); }
  void onWaitBegin(uint32_t worker, uint32_t row, uint32_t peer) override {
    if constexpr (ObserverOfWaits<Observer>)
      observer.onWaitBegin(worker, row, peer);
  }
  void onWaitEnd(uint32_t worker) override {
    if constexpr (ObserverOfWaits<Observer>)
      observer.onWaitEnd(worker);
  }
  Observer &get() { return observer; }

private:
  Observer observer;
};

class VirtualObserver {
public:
  void add(std::unique_ptr<AnyObserver> observer) { observers.push_back(std::move(observer)); }
  /// In the order they were added.
  std::span<const std::unique_ptr<AnyObserver>> all() const { return observers; }

  void open(const Tables &tables, std::span<const uint32_t> local, uint32_t workers) {
    for (const std::unique_ptr<AnyObserver> &observer : observers)
      observer->open(tables, local, workers);
  }
  void onBegin(const Context &c) {
    for (const std::unique_ptr<AnyObserver> &observer : observers)
      observer->onBegin(c);
  }
  void onEnd(const Context &c) {
    for (const std::unique_ptr<AnyObserver> &observer : observers)
      observer->onEnd(c);
  }
  void onWaitBegin(uint32_t worker, uint32_t row, uint32_t peer) {
    for (const std::unique_ptr<AnyObserver> &observer : observers)
      observer->onWaitBegin(worker, row, peer);
  }
  void onWaitEnd(uint32_t worker) {
    for (const std::unique_ptr<AnyObserver> &observer : observers)
      observer->onWaitEnd(worker);
  }

private:
  std::vector<std::unique_ptr<AnyObserver>> observers;
};

} // namespace sluice::runtime
