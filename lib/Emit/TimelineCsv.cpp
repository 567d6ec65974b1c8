#include "Emit/TimelineCsv.h"

#include "Emit/Part.h"
#include "Emit/TimeText.h"
#include "Emit/UnderWay.h"
#include "Timeline/Slack.h"

#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

namespace sluice {

namespace {

std::string cell(const std::string &text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos)
    return text;
  std::string quoted = "\"";
  for (char c : text)
    quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + '"';
}

/// Empty cells where a column says nothing of the row.
struct Row {
  const char *kind = "";
  uint32_t device = 0;
  std::string to, id, op, stage, microbatch, start, end, slack, ready, bytes, link, file, line;
};

class Table {
public:
  Table(const TimedSchedule &schedule, llvm::raw_ostream &out)
      : schedule(schedule), program(schedule.program), part(schedule), out(out), name(cell(program.name)),
        unit(displayUnitOf(schedule.costs)),
        slack(slacks(program, schedule.index, schedule.costs, schedule.timeline)) {}

  void write() {
    for (uint32_t device = part.firstDevice; device < part.deviceEnd; ++device)
      for (OpId op = program.deviceBegin[device]; op < program.deviceBegin[device + 1]; ++op)
        writeOp(device, op);
    for (const UnderWay &item : underWay(schedule))
      if (part.meets(item.begin, item.end) &&
          (part.has(item.device) || (item.to != noDevice && part.has(item.to))))
        writeUnderWay(item);
  }

private:
  std::string text(int64_t time) const { return inDisplayUnit(schedule.costs, time); }

  Row rowOf(const char *kind, uint32_t device, OpId id, int64_t start, int64_t end) const {
    const Op &op = program.ops[id];
    Row row;
    row.kind = kind;
    row.device = device;
    row.id = std::to_string(id);
    if (op.kind != OpKind::Norm && op.kind != OpKind::ReduceTied)
      row.stage = std::to_string(op.stage);
    if (op.hasMicrobatch())
      row.microbatch = std::to_string(op.microbatch);
    row.start = text(start);
    row.end = text(end);
    if (const Span span = program.spanOf(id); schedule.part.sources && span.isValid()) {
      const Location place = schedule.part.sources->locate(span.begin);
      row.file = place.file.str();
      row.line = std::to_string(place.line);
    }
    return row;
  }
  void writeOp(uint32_t device, OpId id) {
    const int64_t start = schedule.timeline.start(program, schedule.costs, id);
    const int64_t end = schedule.timeline.end[id];
    if (!part.meets(start, end))
      return;
    Row row = rowOf("op", device, id, start, end);
    row.op = str(program, id);
    if (!slack.empty())
      row.slack = text(slack[id]);
    write(row);
  }
  void writeUnderWay(const UnderWay &item) {
    static constexpr const char *kinds[] = {"message", "collective", "host"};
    Row row = rowOf(kinds[static_cast<unsigned>(item.kind)], item.device, item.op, item.begin, item.end);
    row.op = str(program, item);
    row.ready = text(item.ready);
    if (item.to != noDevice)
      row.to = std::to_string(item.to);
    if (item.bytes > 0)
      row.bytes = std::to_string(item.bytes);
    if (item.link != noLink)
      row.link = schedule.costs.links[item.link].name;
    write(row);
  }
  void write(const Row &row) {
    out << fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", name, row.kind, row.device,
                       row.to, row.id, cell(row.op), row.stage, row.microbatch, row.ready, row.start, row.end,
                       unit, row.slack, row.bytes, cell(row.link), cell(row.file), row.line);
  }

  const TimedSchedule &schedule;
  const Program &program;
  const Part part;
  llvm::raw_ostream &out;
  const std::string name, unit;
  std::vector<int64_t> slack;
};

} // namespace

void writeTimelineCsv(llvm::ArrayRef<TimedSchedule> schedules, llvm::raw_ostream &out) {
  out << "schedule,kind,device,to_device,id,op,stage,microbatch,ready,start,end,unit,slack,bytes,link,file,"
         "line\n";
  for (const TimedSchedule &schedule : schedules)
    Table(schedule, out).write();
}

} // namespace sluice
