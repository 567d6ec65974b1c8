// The page: what is shown, pointer and keys, the panel of the chosen op.
const $ = (id) => document.getElementById(id);

const page = {
  shows: { critical: false, memory: false, transfers: false },
  chosen: null, // {chart, op}
  pointed: null, // what thingAt gives, and its chart
  printing: false,
  colors: null,
  transferLook: 0,
  charts: [],
  views: [],
};
const { looks, lookOf, shows, schedules: contents } = JSON.parse($("data").textContent);
page.transferLook = looks.findIndex((look) => look.meaning === "transfer");
page.isDark = looks.map((look) => {
  const [r, g, b] = [1, 3, 5].map((at) => parseInt(look.shades[0].slice(at, at + 2), 16));
  return 0.3 * r + 0.59 * g + 0.11 * b < 110;
});
const schedules = contents.map((content) => new Schedule(content, lookOf));

/// Light kinds glare on a dark page, dark ones vanish.
const onDarkPage = (shade, i) => (page.isDark[(i / SHADES) | 0] ? mixed(shade, "#ffffff", 22) : mixed(shade, "#12161c", 12));
function readColors() {
  const style = getComputedStyle(document.documentElement), color = (name) => style.getPropertyValue(`--${name}`).trim();
  const isDark = color("scheme") === "dark", shades = looks.flatMap((look) => look.shades);
  page.colors = { onOps: "#10151b", onDark: "#ffffff", ops: isDark ? shades.map(onDarkPage) : shades };
  for (const name of ["page", "ink", "muted", "grid", "track", "critical", "inputs", "users", "memory"])
    page.colors[name] = color(name);
  for (const swatch of document.querySelectorAll("#legend [data-color]"))
    swatch.style.background = page.colors.ops[swatch.dataset.color];
}

// Drawing waits for the next frame, so that many events cost one picture.
let isAwaited = false;
const stale = { pictures: false, layout: false };
function refresh(kind) {
  stale[kind] = true;
  if (isAwaited)
    return;
  isAwaited = true;
  requestAnimationFrame(() => {
    isAwaited = false;
    redraw();
  });
}
function redraw() {
  document.documentElement.style.setProperty("--header", `${headerHeight()}px`);
  for (const chart of page.charts) {
    if (stale.layout)
      chart.layOut();
    else if (stale.pictures)
      chart.draw();
    drawMarks(chart);
  }
  stale.pictures = stale.layout = false;
  $("shares").hidden = !page.charts.some((chart) => chart.merged);
}

// Charts and their views: one view for all, if all count ticks or none does.
function start() {
  const together = schedules.every((schedule) => schedule.ticks === schedules[0].ticks);
  const viewOf = (some) => {
    const least = Math.min(...some.map((s) => s.from * s.perUnit)), most = Math.max(...some.map((s) => s.to * s.perUnit));
    const smallest = Math.max(Math.min(...some.map((s) => 4 * s.perUnit)), (most - least) * 1e-9);
    const view = new View(least, Math.max(most, least + smallest), Math.min(smallest, Math.max(most - least, 1e-9)), some[0].ticks);
    view.changed = () => refresh("pictures");
    page.views.push(view);
    return view;
  };
  const shared = together ? viewOf(schedules) : null;
  makeLegend();
  readColors();
  schedules.forEach((schedule, i) => {
    const place = document.querySelector(`.chart[data-schedule="${i}"]`);
    const chart = new Chart(place, schedule, shared ?? viewOf([schedule]), page);
    page.charts.push(chart);
    listen(chart);
  });
  for (const [name, isOn] of Object.entries(shows))
    if (isOn && !(name === "transfers" && !schedules.some((schedule) => schedule.hasTransfers)))
      toggle(name, true);
  refresh("marks");
  if (!schedules.some((schedule) => schedule.hasTransfers)) {
    $("transfers").disabled = true;
    $("transfers").title = "no transfer takes time in this model";
  }
}

function makeLegend() {
  const most = new Array(looks.length).fill(-1); // palest shade by look
  let longest = 0;
  for (const schedule of schedules) {
    for (let op = 0; op < schedule.size; ++op)
      if (schedule.end[op] > schedule.start[op]) {
        const look = (schedule.color[op] / SHADES) | 0;
        most[look] = Math.max(most[look], schedule.color[op] % SHADES);
      }
    for (const op of schedule.beside.op)
      most[(schedule.color[op] / SHADES) | 0] = Math.max(most[(schedule.color[op] / SHADES) | 0], 0);
    if (schedule.hasTransfers && schedule.transfers.from.length)
      most[page.transferLook] = Math.max(most[page.transferLook], 0);
  }
  const items = [];
  looks.forEach(({ meaning }, look) => {
    if (most[look] < 0 || look === 0)
      return;
    longest = Math.max(longest, most[look]);
    const swatches = most[look] === 0 ? [0] : [0, 1, 3, 5].filter((shade) => shade <= most[look]);
    items.push(element("li", {}, ...swatches.map((shade) => {
      const swatch = element("span", { className: "swatch" });
      swatch.dataset.color = look * SHADES + shade;
      return swatch;
    }), ` ${meaning}`));
  });
  items.push(element("li", {}, element("span", { className: "swatch idle" }), " idle"));
  if (longest > 0)
    items.push(element("li", {}, "deep to pale: a device's stages, ascending"));
  items.push(element("li", {}, "number: microbatch"));
  items.push(element("li", { id: "shares" }, "height: share of the time, where ops are too narrow"));
  $("legend").replaceChildren(...items);
}

// The pointer.
function pointAt(chart, x, y, clientX, clientY) {
  const thing = thingAt(chart, x, y);
  page.pointed = thing ? { chart, ...thing } : null;
  refresh("marks");
  const tip = $("tip");
  tip.hidden = !thing;
  if (!thing)
    return;
  tip.replaceChildren(...described(page, describe(chart, thing), "strong"));
  const { offsetWidth: width, offsetHeight: height } = tip;
  const left = clientX + 16 + width > window.innerWidth ? clientX - 16 - width : clientX + 16;
  const top = clientY + 18 + height > window.innerHeight ? clientY - 14 - height : clientY + 18;
  tip.style.left = `${Math.max(4, Math.min(left, window.innerWidth - width - 4))}px`;
  tip.style.top = `${Math.max(4, top)}px`;
}
function pointNowhere() {
  page.pointed = null;
  $("tip").hidden = true;
  refresh("marks");
}

function listen(chart) {
  const { over: canvas, view } = chart, pointers = new Map();
  let moved = 0, apart = 0;
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  canvas.addEventListener("wheel", (event) => {
    const [x] = at(event), sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey;
    const pixels = event.deltaMode === 1 ? 20 : event.deltaMode === 2 ? 400 : 1;
    if (x < chart.left || (!sideways && event.deltaY > 0 && view.isWhole && !event.ctrlKey))
      return; // beside the picture, and beyond the whole of it, the page scrolls
    event.preventDefault();
    if (sideways)
      view.pan(((event.deltaX || event.deltaY) * pixels) / chart.width);
    else
      view.zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY * pixels * (event.ctrlKey ? 0.01 : 0.002)))), chart.time(x));
    pointNowhere();
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button > 0)
      return;
    pointers.set(event.pointerId, at(event));
    canvas.setPointerCapture(event.pointerId);
    moved = pointers.size > 1 ? 99 : 0;
    apart = distance();
  });
  const distance = () => {
    const [a, b] = [...pointers.values()];
    return b ? Math.max(Math.abs(a[0] - b[0]), 20) : 0;
  };
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = at(event), before = pointers.get(event.pointerId);
    if (!before) {
      if (event.pointerType !== "touch")
        pointAt(chart, x, y, event.clientX, event.clientY);
      return;
    }
    pointers.set(event.pointerId, [x, y]);
    moved += Math.abs(x - before[0]) + Math.abs(y - before[1]);
    if (moved < 4)
      return;
    pointNowhere();
    if (pointers.size > 1) {
      const [a, b] = [...pointers.values()], now = distance();
      view.zoom(apart / now, chart.time((a[0] + b[0]) / 2));
      apart = now;
    } else {
      canvas.classList.add("dragged");
      view.pan((before[0] - x) / chart.width);
      if (event.pointerType === "mouse")
        window.scrollBy(0, before[1] - y);
    }
  });
  const release = (event) => {
    if (!pointers.delete(event.pointerId))
      return;
    canvas.classList.remove("dragged");
    if (event.type === "pointerup" && moved < 4) {
      const thing = thingAt(chart, ...at(event));
      choose(thing?.op >= 0 ? { chart, op: thing.op } : null);
      if (page.chosen && event.pointerType === "touch")
        bringIntoSight(page.chosen);
    }
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", pointNowhere);
  canvas.addEventListener("dblclick", () => {
    if (page.chosen)
      zoomTo(page.chosen);
  });
  canvas.addEventListener("keydown", (event) => pressed(event, chart));
}

// The chosen op.
function choose(chosen) {
  page.chosen = chosen;
  document.body.classList.toggle("chosen", !!chosen);
  $("panel").hidden = !chosen;
  if (chosen)
    fillPanel(chosen);
  refresh("marks");
}
function fillPanel({ chart, op }) {
  const { schedule } = chart;
  const list = (title, others) => {
    const items = others.map(({ op: other, kind }) => {
      const i = title === "needs" ? schedule.transferBetween(other, op) : schedule.transferBetween(op, other);
      const t = schedule.transfers, way = i >= 0 && t.end[i] > t.begin[i] ? `, ${timeText(schedule, t.end[i] - t.begin[i])} under way` : "";
      return element("li", {}, element("button", { type: "button", onclick: () => goTo({ chart, op: other }) }, schedule.nameOf(other)),
        ` device ${schedule.device[other]}: ${EDGE_WORDS[kind] ?? kind}${way}`);
    });
    return [element("h3", {}, title), items.length ? element("ul", {}, ...items) : element("p", { className: "remark" }, "nothing")];
  };
  $("about").replaceChildren(...described(page, describe(chart, { op }), "h2"), ...list("needs", schedule.inputsOf(op)),
    ...list("is needed by", schedule.usersOf(op)));
}
/// Chooses an op, and moves the time shown so that it is seen.
function goTo(chosen) {
  const { chart, op } = chosen, { schedule, view } = chart;
  const from = schedule.start[op] * schedule.perUnit, to = schedule.end[op] * schedule.perUnit;
  if (from < view.from || to > view.to)
    view.show((from + to - view.span) / 2, (from + to + view.span) / 2);
  choose(chosen);
  bringIntoSight(chosen);
}
/// Scrolls until the row of an op is neither above the window, nor below it or behind the panel.
function bringIntoSight({ chart, op }) {
  const row = chart.rowOf.get(chart.schedule.device[op]);
  if (!row)
    return;
  const y = chart.over.getBoundingClientRect().top + row.y, panel = $("panel").getBoundingClientRect();
  const top = headerHeight() + AXIS, isBelow = getComputedStyle($("panel")).position === "fixed" && panel.height > 0;
  const bottom = isBelow ? panel.top : window.innerHeight;
  if (y < top || y + chart.rowHeight > bottom)
    window.scrollBy(0, y - Math.max(top + 8, (top + bottom) / 2 - 60));
}
/// Of the window, what the header hides.
function headerHeight() {
  const header = document.querySelector("header");
  return getComputedStyle(header).position === "sticky" ? header.offsetHeight : 0;
}
function zoomTo({ chart, op }) {
  const { schedule, view } = chart, length = Math.max(schedule.end[op] - schedule.start[op], 1) * schedule.perUnit;
  const middle = ((schedule.start[op] + schedule.end[op]) / 2) * schedule.perUnit;
  view.show(middle - 10 * length, middle + 10 * length);
}
/// The neighbour of the chosen op: by program order, or on the next device at the same time.
function step({ chart, op }, dx, dy) {
  const { schedule } = chart, d = schedule.device[op];
  if (dx !== 0) {
    let next = dx > 0 ? schedule.groupEnd(op) : schedule.groupBegin(op) - 1;
    while (next >= schedule.begin[d] && next < schedule.begin[d + 1] && schedule.end[next] <= schedule.start[next])
      next += dx;
    return next >= schedule.begin[d] && next < schedule.begin[d + 1] ? schedule.groupBegin(next) : op;
  }
  const row = schedule.shown.indexOf(d) + dy, other = schedule.shown[row];
  if (other === undefined || schedule.begin[other] === schedule.begin[other + 1])
    return op;
  return Math.min(schedule.firstAfter(other, schedule.start[op]), schedule.begin[other + 1] - 1);
}

function pressed(event, chart) {
  if (event.altKey || event.metaKey || event.ctrlKey)
    return;
  const { view } = chart, [dx, dy] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key] ?? [0, 0];
  if (event.shiftKey && (dx || dy)) {
    const [first] = chart.range(chart.schedule.shown[0]);
    goTo(page.chosen?.chart === chart ? { chart, op: step(page.chosen, dx, dy) }
      : { chart, op: Math.min(first, chart.schedule.size - 1) });
  } else if (dx) {
    view.pan(dx * 0.15);
  } else if (event.key === "+" || event.key === "=") {
    view.zoom(1 / 1.5);
  } else if (event.key === "-") {
    view.zoom(1.5);
  } else if (event.key === "0" || event.key === "Home") {
    view.whole();
  } else if (event.key === "Enter" && page.chosen) {
    zoomTo(page.chosen);
  } else if (event.key === "Escape") {
    choose(null);
    pointNowhere();
  } else {
    return;
  }
  event.preventDefault();
}

// Search: the next op of that name, over all schedules.
function search(text) {
  const wanted = text.toLowerCase().replace(/\s+/g, "");
  if (!wanted)
    return;
  const found = [];
  const exact = /\)$/.test(wanted);
  for (const chart of page.charts)
    for (let op = 0; op < chart.schedule.size && found.length < 5000; ++op) {
      const name = chart.schedule.nameOf(op).toLowerCase().replace(/\s+/g, "");
      if (exact ? name === wanted : name.startsWith(wanted))
        found.push({ chart, op });
    }
  const now = found.findIndex(({ chart, op }) => page.chosen?.chart === chart && page.chosen.op === op);
  const next = found[(now + 1) % Math.max(found.length, 1)];
  $("found").textContent = next ? `${((now + 1) % found.length) + 1} of ${found.length}` : "no such op";
  if (!next)
    return;
  goTo(next);
  const { chart, op } = next, box = boxOf(chart, op);
  if (box && box.width < 6)
    zoomTo(next);
  bringIntoSight(next);
}

// Controls.
function toggle(name, isOn = !page.shows[name]) {
  page.shows[name] = isOn;
  $(name).setAttribute("aria-pressed", isOn);
  refresh("layout");
}
for (const name of Object.keys(page.shows))
  $(name).addEventListener("click", () => toggle(name));
$("in").addEventListener("click", () => page.views.forEach((view) => view.zoom(1 / 1.5)));
$("out").addEventListener("click", () => page.views.forEach((view) => view.zoom(1.5)));
$("whole").addEventListener("click", () => page.views.forEach((view) => view.whole()));
$("close").addEventListener("click", () => choose(null));
$("search").addEventListener("submit", (event) => {
  event.preventDefault();
  search($("wanted").value);
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && page.chosen)
    choose(null);
});
const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
function recolor() {
  readColors();
  if (page.chosen)
    fillPanel(page.chosen);
  refresh("pictures");
}
$("theme").addEventListener("click", () => {
  const isDark = getComputedStyle(document.documentElement).getPropertyValue("--scheme").trim() === "dark";
  document.documentElement.dataset.theme = isDark ? "light" : "dark";
  recolor();
});
prefersDark.addEventListener("change", recolor);

// Paper: all of the time, on white, with every table.
const opened = [];
window.addEventListener("beforeprint", () => {
  page.printing = true;
  page.kept = { theme: document.documentElement.dataset.theme, views: page.views.map(({ from, to }) => ({ from, to })) };
  document.documentElement.dataset.theme = "light";
  for (const details of document.querySelectorAll("section details:not([open])")) {
    details.open = true;
    opened.push(details);
  }
  readColors();
  pointNowhere();
  for (const view of page.views)
    Object.assign(view, { from: view.least, to: view.most });
  for (const chart of page.charts) {
    chart.layOut(1000);
    drawMarks(chart);
  }
});
window.addEventListener("afterprint", () => {
  page.printing = false;
  if (page.kept.theme)
    document.documentElement.dataset.theme = page.kept.theme;
  else
    delete document.documentElement.dataset.theme;
  opened.splice(0).forEach((details) => (details.open = false));
  page.views.forEach((view, i) => Object.assign(view, page.kept.views[i]));
  readColors();
  refresh("layout");
});

start();
new ResizeObserver(() => page.printing || refresh("layout")).observe(document.querySelector("main"));
window.addEventListener("resize", () => page.printing || refresh("layout"));

/// For tests and the console: where an op is in the window, and what is shown.
window.timeline = {
  place(name, at = 0) {
    const chart = page.charts[at], { schedule } = chart;
    for (let op = 0; op < schedule.size; ++op)
      if (schedule.nameOf(op) === name) {
        const box = boxOf(chart, op), canvas = chart.over.getBoundingClientRect();
        return box && { x: canvas.left + box.x, y: canvas.top + box.y, width: box.width, height: box.height };
      }
    return null;
  },
  draw: () => page.charts.forEach((chart) => chart.draw()),
  state: () => ({
    views: page.views.map(({ from, to, isWhole }) => ({ from, to, isWhole })),
    chosen: page.chosen && page.chosen.chart.schedule.nameOf(page.chosen.op),
    shows: { ...page.shows },
    charts: page.charts.map((chart) => ({ ops: chart.schedule.size, rows: chart.rows.length, lanes: chart.lanes.length,
      merged: chart.merged, arrows: Number(chart.place.dataset.arrows), page: page.colors.page })),
  }),
};
