// What the page says about an op, a gap, memory or a message: rows of a name and a value.
const EDGE_WORDS = {
  activation: "activation", gradient: "gradient", saved: "saved activation", half: "input half", split: "split before",
  contribution: "all members", order: "order",
};

/// Why an op starts when it does.
function waitsFor(schedule, first) {
  const cause = schedule.waitsBack[first] !== 0 ? first - schedule.waitsBack[first] : -1;
  if (cause < 0)
    return schedule.start[first] === 0 ? "nothing: starts at time 0" : "something outside the part shown";
  const kind = schedule.edges[schedule.waitsKind[first]], transfer = schedule.waitsTransfer[first];
  const where = schedule.device[cause] === schedule.device[first] ? "" : ` on device ${schedule.device[cause]}`;
  const what = kind === "order" ? ", before it on the device" : ` (${EDGE_WORDS[kind] ?? kind})`;
  return `${schedule.nameOf(cause)}${where}${what}` +
    (transfer > 0 ? `, then ${timeText(schedule, transfer)} under way` : "");
}

function opRows(schedule, op) {
  const first = schedule.groupBegin(op), time = (value) => timeText(schedule, value);
  const rows = [
    ["start", time(schedule.start[op])],
    ["end", time(schedule.end[op])],
    ["duration", time(schedule.end[op] - schedule.start[op])],
    ["slack", schedule.slack ? time(schedule.slack[op]) : "not given: transfers share links"],
    ["device", String(schedule.device[op])],
    ["stage", String(schedule.stage[op])],
  ];
  if (schedule.microbatch[op] >= 0)
    rows.push(["microbatch", String(schedule.microbatch[op])]);
  if (schedule.isCritical[op])
    rows.push(["critical path", "on it"]);
  rows.push(["waits for", waitsFor(schedule, first)]);
  const held = schedule.memoryAt(schedule.device[op], schedule.start[op]);
  if (held !== null)
    rows.push(["memory", `${memoryText(schedule, held)} from its start`]);
  const [file, line, text] = schedule.sites[schedule.site[op]];
  if (file)
    rows.push(["line", `${file}:${line}`], ["", text]);
  return rows;
}

function transferRows(schedule, i) {
  const t = schedule.transfers, time = (value) => timeText(schedule, value);
  const rows = [["from", `${schedule.nameOf(t.from[i])} on device ${schedule.device[t.from[i]]}`],
    ["to", `${schedule.nameOf(t.to[i])} on device ${schedule.device[t.to[i]]}`], ["ready", time(t.ready[i])]];
  if (t.begin[i] > t.ready[i])
    rows.push(["queues", time(t.begin[i] - t.ready[i])]);
  rows.push(["under way", `${time(t.begin[i])} to ${time(t.end[i])}: ${time(t.end[i] - t.begin[i])}`]);
  if (t.bytes[i] > 0)
    rows.push(["size", sizeText(t.bytes[i])]);
  if (t.link[i] >= 0)
    rows.push(["link", schedule.links[t.link[i]]]);
  return rows;
}

function idleRows(schedule, d, at) {
  const next = schedule.firstAfter(d, at), isLast = next >= schedule.begin[d + 1];
  const from = next > schedule.begin[d] ? schedule.end[next - 1] : 0, to = isLast ? schedule.makespan : schedule.start[next];
  const rows = [["device", String(d)], ["from", timeText(schedule, from)], ["to", timeText(schedule, to)],
    ["duration", timeText(schedule, to - from)]];
  if (isLast)
    return [...rows, ["", "nothing more to do"]];
  return [...rows, ["until", schedule.nameOf(next)], ["which waits for", waitsFor(schedule, schedule.groupBegin(next))]];
}

/// Title and rows of what is at a point.
function describe(chart, thing) {
  const { schedule } = chart;
  if (thing.op >= 0) {
    const first = schedule.groupBegin(thing.op), names = [];
    for (let op = first; op < schedule.groupEnd(first); ++op)
      names.push(schedule.nameOf(op));
    return { title: schedule.nameOf(thing.op), color: schedule.color[thing.op],
      rows: [...(names.length > 1 ? [["fused", names.join(" & ")]] : []), ...opRows(schedule, thing.op)] };
  }
  if (thing.idle)
    return { title: "idle", rows: idleRows(schedule, thing.d, thing.time) };
  if (thing.item?.transfer >= 0) {
    const i = thing.item.transfer;
    return { title: `${schedule.transfers.gradient[i] ? "gradient" : "activation"} of microbatch ${
      schedule.microbatch[schedule.transfers.from[i]]}`, color: chart.page.transferLook * SHADES, rows: transferRows(schedule, i) };
  }
  if (thing.item) {
    const { op, begin, end } = thing.item;
    return { title: schedule.nameOf(op), color: schedule.color[op], rows: [["device", String(schedule.device[op])],
      ["goes on", `${timeText(schedule, begin)} to ${timeText(schedule, end)}: ${timeText(schedule, end - begin)}`]] };
  }
  const { limit } = schedule.devices[thing.d];
  return { title: `memory of device ${thing.d}`, rows: [["at", timeText(schedule, rounded(chart, thing.time))],
    ["holds", memoryText(schedule, thing.memory)], ["peak", memoryText(schedule, schedule.memory[thing.d].peak)],
    ...(limit === undefined ? [] : [["limit", sizeText(limit)]])] };
}

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes))
    key in made && key !== "style" ? (made[key] = value) : made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/// Heading and list of a description.
function described(page, { title, color, rows }, heading) {
  const swatch = color === undefined ? [] : [element("span", { className: "swatch", style: `background:${page.colors.ops[color]}` })];
  const list = element("dl");
  for (const [name, value] of rows)
    if (name)
      list.append(element("dt", {}, name), element("dd", {}, value));
    else
      list.append(element("dd", { className: "source" }, value));
  return [element(heading, {}, ...swatch, title), list];
}
