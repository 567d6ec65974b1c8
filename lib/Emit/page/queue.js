// The queue lab: numbers of the form, a backlog after each step, and what that means.
const $ = (id) => document.getElementById(id);
const queues = JSON.parse($("data").textContent), names = ["backlog", "arrival", "service", "step"];
const zero = new Fraction(0n);
const TALLEST = 180; // pixels
const mostBars = 200; // the oldest go; the chart says so
let steps = []; // {time, backlog}

function fill(queue) {
  for (const name of names)
    $(name).value = Fraction.read(queue[name]).toString();
  reset();
}

/// The numbers of the form; null, with a word on what is wrong, if one is none.
function read() {
  const values = {};
  let fault = "";
  for (const name of names) {
    const value = Fraction.read($(name).value), isWrong = !value || (name === "step" && value.sign <= 0);
    $(name).setAttribute("aria-invalid", isWrong);
    if (isWrong && !fault)
      fault = `${name} is ${$(name).value.trim() || "empty"}: a number such as 4, 0.5 or 1/3` +
        (name === "step" ? ", above 0" : ", not negative");
    values[name] = value;
  }
  $("fault").textContent = fault;
  $("fault").hidden = !fault;
  return fault ? null : values;
}

function reset() {
  const values = read();
  if (!values)
    return;
  steps = [{ time: zero, backlog: values.backlog }];
  show(values);
}

function step() {
  const values = read();
  if (!values)
    return;
  const { time, backlog } = steps[steps.length - 1];
  const left = backlog.plus(values.arrival.minus(values.service).times(values.step));
  steps.push({ time: time.plus(values.step), backlog: left.sign < 0 ? zero : left });
  show(values);
}

/// What the numbers of the form will do from here on.
function meaning({ arrival, service }, { backlog }) {
  const net = service.minus(arrival), drain = () => `${backlog.over(net)} s`;
  if (net.sign === 0)
    return "The backlog stays: as much arrives as is served.";
  if (net.sign < 0)
    return "The backlog grows: more arrives than is served.";
  if (backlog.sign === 0)
    return "Nothing waits.";
  return arrival.sign === 0 ? `Admissions have stopped: the backlog is served in ${drain()}.`
    : `Less arrives than is served: the backlog is gone in ${drain()}.`;
}

function show(values) {
  const shown = steps.slice(-mostBars), most = Math.max(...shown.map(({ backlog }) => backlog.number), 1e-9);
  $("bars").replaceChildren(...shown.map(({ time, backlog }) => {
    const item = document.createElement("li");
    for (const [kind, text] of [["value", String(backlog)], ["bar", ""], ["time", `${time} s`]]) {
      const part = document.createElement("span");
      part.className = kind;
      part.textContent = text;
      if (kind === "bar")
        part.style.height = `${(TALLEST * backlog.number) / most}px`;
      item.append(part);
    }
    return item;
  }));
  $("bars").scrollLeft = $("bars").scrollWidth;
  const last = steps[steps.length - 1];
  $("now").textContent = `after ${last.time} s: backlog ${last.backlog}`;
  $("meaning").textContent = meaning(values, last) + (steps.length > mostBars ? ` The last ${mostBars} steps are shown.` : "");
}

for (const [i, { name }] of queues.entries())
  $("queue").append(new Option(name || `queue ${i + 1}`, i));
$("which").hidden = queues.length < 2;
$("queue").addEventListener("change", () => fill(queues[$("queue").value]));
$("lab").addEventListener("submit", (event) => {
  event.preventDefault();
  step();
});
$("reset").addEventListener("click", () => fill(queues[$("queue").value]));
$("stop").addEventListener("click", () => {
  $("arrival").value = "0";
  const values = read();
  if (values)
    show(values);
});
$("backlog").addEventListener("change", reset);
for (const name of ["arrival", "service", "step"])
  $(name).addEventListener("input", () => {
    const values = read();
    if (values)
      show(values);
  });
fill(queues[0]);
