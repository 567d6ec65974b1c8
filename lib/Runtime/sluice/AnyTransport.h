// A transport that is chosen at run time. AnyTransport is the interface; TransportOver makes one of any
// transport; VirtualTransport is what an executor is given:
//
//   std::unique_ptr<AnyTransport<Tensor>> chosen;
//   if (isDistributed) chosen = std::make_unique<TransportOver<Tensor, Mpi<Tensor>>>();
//   else               chosen = std::make_unique<TransportOver<Tensor, Threads<Tensor>>>();
//   using Chosen = VirtualTransport<Tensor, Schedule::verified>;
//   Executor<MyStage, Schedule, Chosen> executor(schedule, makeStage, {}, Chosen(std::move(chosen)));
//
// Whether the schedule was verified under the channel model of the one that is chosen shows when it is: the
// constructor throws std::invalid_argument, which names both.
#pragma once

#include "Context.h"
#include "Supervisor.h"

#include <cstddef>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <type_traits>
#include <utility>

namespace sluice::runtime {

/// A request of any transport, kept in place: nothing is allocated per message.
class AnyRequest {
public:
  AnyRequest() = default;
  template <class Request> static AnyRequest of(const Request &request) {
    static_assert(std::is_trivially_copyable_v<Request> && sizeof(Request) <= size,
                  "a request behind AnyTransport is at most 32 trivially copyable bytes: keep more in the "
                  "transport, and its number here");
    AnyRequest any;
    std::memcpy(any.bytes, &request, sizeof request);
    return any;
  }
  template <class Request> Request as() const {
    Request request;
    std::memcpy(&request, bytes, sizeof request);
    return request;
  }

private:
  static constexpr size_t size = 32;
  alignas(std::max_align_t) std::byte bytes[size] = {};
};

/// Functions as in the concept TransportOf, and its optional ones with what goes without them.
template <class Boundary> class AnyTransport {
public:
  virtual ~AnyTransport() = default;
  virtual ChannelModel model() const = 0;
  virtual void open(const Network &network, Supervisor &supervisor) = 0;
  virtual AnyRequest startSend(const Message &message, Boundary &boundary) = 0;
  virtual AnyRequest startReceive(const Message &message, Boundary &boundary) = 0;
  virtual bool wait(AnyRequest &request, Waiter &waiter) = 0;
  virtual void beginGroup(uint32_t) {}
  virtual void endGroup(uint32_t) {}
  virtual bool isLocal(uint32_t) const { return true; }
  virtual void finishRun() {}
};

template <class Boundary, class Transport> class TransportOver final : public AnyTransport<Boundary> {
public:
  TransportOver() = default;
  explicit TransportOver(Transport transport) : transport(std::move(transport)) {}

  ChannelModel model() const override { return Transport::channelModel; }
  void open(const Network &network, Supervisor &supervisor) override { transport.open(network, supervisor); }
  AnyRequest startSend(const Message &message, Boundary &boundary) override {
    return AnyRequest::of(transport.startSend(message, boundary));
  }
  AnyRequest startReceive(const Message &message, Boundary &boundary) override {
    return AnyRequest::of(transport.startReceive(message, boundary));
  }
  bool wait(AnyRequest &request, Waiter &waiter) override {
    auto own = request.as<typename Transport::Request>();
    return transport.wait(own, waiter);
  }
  void beginGroup(uint32_t worker) override {
    if constexpr (requires { transport.beginGroup(worker); })
      transport.beginGroup(worker);
  }
  void endGroup(uint32_t worker) override {
    if constexpr (requires { transport.endGroup(worker); })
      transport.endGroup(worker);
  }
  bool isLocal(uint32_t worker) const override {
    if constexpr (requires { transport.isLocal(worker); })
      return transport.isLocal(worker);
    return true;
  }
  void finishRun() override {
    if constexpr (requires { transport.finishRun(); })
      transport.finishRun();
  }

private:
  Transport transport;
};

constexpr const char *name(ChannelModel model) {
  switch (model) {
  case ChannelModel::unbounded:
    return "unbounded";
  case ChannelModel::eager:
    return "eager";
  case ChannelModel::rendezvous:
    return "rendezvous";
  case ChannelModel::rendezvousPair:
    return "rendezvousPair";
  case ChannelModel::rendezvousDevice:
    return "rendezvousDevice";
  }
  return "unknown";
}

template <class Boundary, ChannelModels verified> class VirtualTransport {
public:
  /// The strictest that the schedule was verified under: what the executor does for it is right for all.
  static constexpr ChannelModel channelModel = verified.rendezvousDevice ? ChannelModel::rendezvousDevice
                                               : verified.rendezvousPair ? ChannelModel::rendezvousPair
                                               : verified.rendezvous     ? ChannelModel::rendezvous
                                               : verified.eager          ? ChannelModel::eager
                                                                         : ChannelModel::unbounded;
  using Request = AnyRequest;

  explicit VirtualTransport(std::unique_ptr<AnyTransport<Boundary>> transport)
      : transport(std::move(transport)) {
    if (verified.contains(this->transport->model()))
      return;
    std::string list;
    for (const ChannelModel model : {ChannelModel::unbounded, ChannelModel::eager, ChannelModel::rendezvous,
                                     ChannelModel::rendezvousPair, ChannelModel::rendezvousDevice})
      if (verified.contains(model))
        list += (list.empty() ? "" : ", ") + std::string(name(model));
    throw std::invalid_argument(std::string("the transport offers the channel model ") +
                                name(this->transport->model()) + ", and the schedule was verified under " +
                                (list.empty() ? "none" : list));
  }

  void open(const Network &network, Supervisor &supervisor) { transport->open(network, supervisor); }
  Request startSend(const Message &message, Boundary &boundary) {
    return transport->startSend(message, boundary);
  }
  Request startReceive(const Message &message, Boundary &boundary) {
    return transport->startReceive(message, boundary);
  }
  bool wait(Request &request, Waiter &waiter) { return transport->wait(request, waiter); }
  void beginGroup(uint32_t worker) { transport->beginGroup(worker); }
  void endGroup(uint32_t worker) { transport->endGroup(worker); }
  bool isLocal(uint32_t worker) const { return transport->isLocal(worker); }
  void finishRun() { transport->finishRun(); }

private:
  std::unique_ptr<AnyTransport<Boundary>> transport;
};

} // namespace sluice::runtime
