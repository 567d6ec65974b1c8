#include "Emit/QueuePage.h"

#include "Emit/PageFiles.h"
#include "Emit/SvgRows.h"

#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace sluice {

std::string queuePage(llvm::ArrayRef<QueueStart> queues) {
  std::string data, names;
  llvm::raw_string_ostream stream(data);
  llvm::json::OStream json(stream);
  json.array([&] {
    for (const QueueStart &queue : queues)
      json.object([&] {
        json.attribute("name", queue.name);
        json.attribute("backlog", queue.backlog.str());
        json.attribute("arrival", queue.arrival.str());
        json.attribute("service", queue.service.str());
        json.attribute("step", queue.step.str());
      });
  });
  for (const QueueStart &queue : queues)
    names += (names.empty() ? "" : ", ") + escaped(queue.name);
  return filledPage("queue.html", {{"names", names}, {"data", scriptSafe(data)}});
}

} // namespace sluice
