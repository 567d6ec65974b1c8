#include "Emit/TransportTable.h"

#include "IR/ChannelRules.h"

#include <fmt/format.h>

namespace sluice {

/// How its requests proceed, for someone who has to find out why a device waits.
static std::string behaviour(const ChannelRules &rules) {
  std::string text = rules.isRendezvous() ? "a send ends when its receive does"
                     : rules.isUnbounded()
                         ? "a send ends by itself, however many lie in its channel"
                         : fmt::format("{} sends of a channel end by themselves", rules.depth);
  text += rules.deviceService ? ", and all requests of a device stand in one queue"
                              : ", and each channel serves its requests in order, whatever the others do";
  return text;
}

std::string transportTable() {
  std::string out =
      "| transport | `channel` | `channel_key` | `service` | `groups` | `progress` | `connect` |\n"
      "| --- | --- | --- | --- | --- | --- | --- |\n";
  for (const Transport &transport : transports()) {
    const ChannelRules &rules = transport.rules;
    const std::string channel = rules.isUnbounded() ? "unbounded" : channelText(rules);
    out += fmt::format(
        "| `{}` | {} | {} | {} | {} | {} | {} |\n", transport.name.str(), channel, name(rules.key).str(),
        rules.deviceService ? "device" : "each channel", rules.atomicGroups ? "atomic" : "independent",
        rules.progressInWait ? "in_wait" : "posted", rules.connectOnFirstUse ? "first_use" : "upfront");
  }
  out += "\n";
  for (const Transport &transport : transports())
    out += fmt::format("- `{}`, {}: {}.\n", transport.name.str(), transport.meaning.str(),
                       behaviour(transport.rules));
  return out;
}

} // namespace sluice
