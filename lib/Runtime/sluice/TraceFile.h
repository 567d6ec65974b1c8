// Recorded times as a Trace Event file in JSON, one event a row:
//
//   pid 1 + replica, tid 2 + device; ts and dur in microseconds with three decimals, so exact nanoseconds
//   op,forward     a row, named as in error messages. It begins when what it waited for is there, so that
//                  its length is that of the callback; the waiting stands before it. Joint ops hold theirs
//   wait           waiting for a message or another member of a joint op; rows that only wait
//   message,send_activation   on tracks of its own behind the devices: from the start to the end of the wait
//
// args: device, replica, stage, microbatch, step, row; of messages from_device, to_device, channel and
// number, by which the two ends are paired. Rows that were begun and not ended (a run that failed) are left
// out and counted. The format: "Trace Event Format", Google, 2016.
#pragma once

#include "Joint.h"
#include "Report.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

namespace sluice::runtime {

/// Nanoseconds of the steady clock; `end` 0: not ended. Waits follow the row that they are in.
struct TraceRecord {
  static constexpr uint32_t ownRow = ~0u;
  int64_t begin, end;
  uint64_t step; ///< Of rows; of waits 0.
  uint32_t row;  ///< Of waits the one that started what is waited for.
  uint32_t peer; ///< Of waits the worker waited for; ownRow: a row.
  bool isRow() const { return peer == ownRow; }
};

class TraceFile {
public:
  static constexpr int64_t firstEvent = std::numeric_limits<int64_t>::min();

  explicit TraceFile(const Tables &tables) : tables(tables) {}

  /// The events of a worker, in the order they began. `records` must outlive `write`.
  void add(uint32_t replica, uint32_t device, std::span<const TraceRecord> records, uint64_t dropped) {
    logs.push_back({replica, device, records});
    lost += dropped;
  }

  /// `origin`: time 0, or firstEvent. Throws std::runtime_error where the file cannot be written.
  void write(const std::string &path, int64_t origin) {
    zero = origin == firstEvent ? first() : origin;
    file = std::fopen(path.c_str(), "wb");
    if (!file)
      fail(path);
    text = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";
    for (const Log &log : logs) {
      nameTracks(log);
      writeLog(log);
    }
    text += "\n],\"otherData\":" + frame() + "}\n";
    flush(0);
    const bool isWritten = std::ferror(file) == 0;
    if ((std::fclose(file) != 0) | !isWritten)
      fail(path);
  }

  /// `trace.json` of worker 3 among several processes: `trace.3.json`.
  static std::string numbered(const std::string &path, uint32_t worker) {
    const std::string_view ending = ".json";
    const bool has = path.size() > ending.size() && path.ends_with(ending);
    return path.substr(0, path.size() - (has ? ending.size() : 0)) + "." + std::to_string(worker) +
           std::string(ending);
  }

private:
  struct Log {
    uint32_t replica, device;
    std::span<const TraceRecord> records;
  };
  struct UnderWay {
    int64_t begin, end; ///< 0: never waited for.
    uint64_t step;
    uint32_t row;
  };
  /// What a worker has started, and by row what of that is still under way.
  struct Messages {
    explicit Messages(size_t rows) : open(rows, none) {}
    void start(const UnderWay &message) {
      open[message.row] = all.size();
      all.push_back(message);
    }
    void close(const TraceRecord &wait) {
      if (open[wait.row] == none)
        return;
      all[open[wait.row]].end = wait.end;
      open[wait.row] = none;
    }
    /// The step in which `row` has begun what is waited for in `step`.
    uint64_t stepOf(uint32_t row, uint64_t step) const {
      return open[row] == none ? step : all[open[row]].step;
    }
    std::vector<UnderWay> all;
    std::vector<size_t> open;
    static constexpr size_t none = ~size_t{0};
  };

  [[noreturn]] static void fail(const std::string &path) {
    throw std::runtime_error("cannot write the trace " + path + ": " + std::strerror(errno));
  }

  std::span<const Instruction> rowsOf(const Log &log) const {
    return tables.devices[log.device].instructions;
  }
  int64_t first() const {
    int64_t earliest = std::numeric_limits<int64_t>::max();
    for (const Log &log : logs)
      if (!log.records.empty())
        earliest = std::min(earliest, log.records.front().begin);
    return earliest == std::numeric_limits<int64_t>::max() ? 0 : earliest;
  }

  void writeLog(const Log &log) {
    const std::span<const Instruction> rows = rowsOf(log);
    const std::span<const TraceRecord> records = log.records;
    Messages messages(rows.size());
    for (size_t index = 0; index < records.size();) {
      const TraceRecord &record = records[index];
      if (!record.isRow()) { // behind the last step
        messages.close(record);
        ++index;
        continue;
      }
      size_t end = index + 1;
      while (end < records.size() && !records[end].isRow())
        ++end;
      const bool isMessageRow = isMessage(rows[record.row].op);
      const int64_t begin = writeRow(log, records.subspan(index, end - index), messages);
      // A wait in the row of a message is for what was in its slot before, if only for the same row a step
      // ago.
      for (size_t wait = index + 1; wait < end; ++wait)
        messages.close(records[wait]);
      if (isMessageRow && record.end != 0)
        messages.start({begin, 0, record.step, record.row});
      index = end;
    }
    writeMessages(log, messages.all);
  }

  /// A row and the waits in it; returns when it began to do its own work.
  int64_t writeRow(const Log &log, std::span<const TraceRecord> records, const Messages &messages) {
    const std::span<const Instruction> rows = rowsOf(log);
    const TraceRecord &record = records.front();
    const Instruction &row = rows[record.row];
    int64_t begin = record.begin;
    for (const TraceRecord &wait : records.subspan(1)) {
      const bool isInside = record.end == 0 || wait.begin < record.end;
      if (wait.end == 0 || (isInside && row.op == Op::Wait))
        continue;                                         // a row that only waits says so itself
      const bool isBefore = isInside && !isJoint(row.op); // the row's own work: its time begins behind it
      std::string name = describe(rows[wait.row]);
      event(name.starts_with("wait ") ? name : "wait " + name, "wait", log, 2 + log.device,
            isBefore ? begin : wait.begin, wait.end,
            ids(log, rows[wait.row], wait.row, messages.stepOf(wait.row, record.step)));
      if (isBefore)
        begin = wait.end;
    }
    if (record.end == 0) {
      ++unfinished;
      return begin;
    }
    event(describe(row), row.op == Op::Wait ? "wait" : "op," + std::string(name(row.op)), log, 2 + log.device,
          begin, record.end, ids(log, row, record.row, record.step));
    return begin;
  }

  /// Each on the first track of its device that is free.
  void writeMessages(const Log &log, std::span<const UnderWay> messages) {
    const std::span<const Instruction> rows = rowsOf(log);
    const uint32_t device = log.device, devices = static_cast<uint32_t>(tables.devices.size());
    std::vector<uint32_t> ordinals(rows.size()), perStep(tables.channels.size());
    for (size_t row = 0; row < rows.size(); ++row)
      if (isMessage(rows[row].op))
        ordinals[row] = perStep[rows[row].b]++;
    std::vector<int64_t> freeFrom; // by track
    for (const UnderWay &message : messages) {
      if (message.end == 0) { // never waited for: the run failed, or recording ended
        ++unfinished;
        continue;
      }
      size_t lane = 0;
      while (lane < freeFrom.size() && freeFrom[lane] > message.begin)
        ++lane;
      const uint32_t track = 2 + devices + device + static_cast<uint32_t>(lane) * devices;
      if (lane == freeFrom.size()) {
        freeFrom.push_back(0);
        metadata("thread_name", log, track,
                 "\"name\":\"device " + std::to_string(device) + " messages" +
                     (lane == 0 ? "" : " " + std::to_string(lane + 1)) + '"');
        metadata("thread_sort_index", log, track, "\"sort_index\":" + std::to_string(track));
      }
      freeFrom[lane] = message.end;
      const Instruction &row = rows[message.row];
      const Channel &channel = tables.channels[row.b];
      event(describe(row), "message," + std::string(name(row.op)), log, track, message.begin, message.end,
            ids(log, row, message.row, message.step) + ",\"from_device\":" + std::to_string(channel.from) +
                ",\"to_device\":" + std::to_string(channel.to) + ",\"channel\":" + std::to_string(row.b) +
                ",\"number\":" + std::to_string(message.step * perStep[row.b] + ordinals[message.row]));
    }
  }

  std::string ids(const Log &log, const Instruction &row, uint32_t index, uint64_t step) const {
    std::string args =
        "\"device\":" + std::to_string(log.device) + ",\"replica\":" + std::to_string(log.replica);
    if (row.op != Op::Norm)
      args += ",\"stage\":" + std::to_string(row.stage);
    if (row.microbatch != noMicrobatch)
      args += ",\"microbatch\":" + std::to_string(row.microbatch);
    return args + ",\"step\":" + std::to_string(step) + ",\"row\":" + std::to_string(index);
  }

  void nameTracks(const Log &log) {
    const uint32_t device = log.device;
    const std::string title = std::string(tables.provenance.schedule) + " (measured)" +
                              (tables.replicas == 1 ? "" : ", replica " + std::to_string(log.replica));
    metadata("process_name", log, 0, "\"name\":" + quoted(title));
    metadata("thread_name", log, 2 + device, "\"name\":\"device " + std::to_string(device) + '"');
    metadata("thread_sort_index", log, 2 + device, "\"sort_index\":" + std::to_string(2 + device));
  }

  void metadata(const char *what, const Log &log, uint32_t track, const std::string &args) {
    begin();
    text += "{\"name\":\"" + std::string(what) +
            "\",\"ph\":\"M\",\"pid\":" + std::to_string(1 + log.replica) +
            ",\"tid\":" + std::to_string(track) + ",\"args\":{" + args + "}}";
  }
  void event(const std::string &name, const std::string &category, const Log &log, uint32_t track,
             int64_t start, int64_t end, const std::string &args) {
    begin();
    text += "{\"name\":\"" + name + "\",\"cat\":\"" + category +
            "\",\"ph\":\"X\",\"pid\":" + std::to_string(1 + log.replica) +
            ",\"tid\":" + std::to_string(track) + ",\"ts\":" + microseconds(start - zero) +
            ",\"dur\":" + microseconds(end - start) + ",\"args\":{" + args + "}}";
  }
  void begin() {
    text += isFirst ? "\n" : ",\n";
    isFirst = false;
    flush(1 << 16);
  }
  void flush(size_t most) {
    if (text.size() <= most)
      return;
    std::fwrite(text.data(), 1, text.size(), file);
    text.clear();
  }

  static std::string microseconds(int64_t nanoseconds) {
    const uint64_t size =
        nanoseconds < 0 ? 0 - static_cast<uint64_t>(nanoseconds) : static_cast<uint64_t>(nanoseconds);
    const std::string fraction = std::to_string(1000 + size % 1000).substr(1);
    return (nanoseconds < 0 ? "-" : "") + std::to_string(size / 1000) + "." + fraction;
  }
  static std::string quoted(std::string_view content) {
    std::string out = "\"";
    for (const char c : content) {
      if (c == '"' || c == '\\')
        out += '\\';
      if (static_cast<unsigned char>(c) < 0x20) {
        char code[8];
        std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(c));
        out += code;
      } else {
        out += c;
      }
    }
    return out + '"';
  }

  std::string frame() const {
    uint64_t from = std::numeric_limits<uint64_t>::max(), to = 0;
    for (const Log &log : logs)
      for (const TraceRecord &record : log.records)
        if (record.isRow()) {
          from = std::min(from, record.step);
          to = std::max(to, record.step + 1);
        }
    return "{\"producer\":\"sluice\",\"kind\":\"measured\",\"schedule\":" +
           quoted(tables.provenance.schedule) + ",\"parameters\":" + quoted(tables.provenance.parameters) +
           ",\"digest\":" + quoted(tables.provenance.digest) +
           ",\"replicas\":" + std::to_string(tables.replicas) +
           ",\"devices\":" + std::to_string(tables.devices.size()) +
           ",\"steps\":" + std::to_string(to > from ? to - from : 0) +
           ",\"first_step\":" + std::to_string(to > from ? from : 0) +
           ",\"origin_ns\":" + std::to_string(zero) + ",\"unfinished\":" + std::to_string(unfinished) +
           ",\"dropped\":" + std::to_string(lost) + "}";
  }

  const Tables &tables;
  std::vector<Log> logs;
  uint64_t lost = 0, unfinished = 0;
  int64_t zero = 0;
  std::FILE *file = nullptr;
  std::string text;
  bool isFirst = true;
};

} // namespace sluice::runtime
