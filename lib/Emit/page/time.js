// Times as text, marks of an axis, and the part of the time that charts show.
const UNITS = ["ns", "us", "ms", "s"];

/// At most `places` digits behind the point, no zeros at the end.
const decimal = (value, places) => String(parseFloat(value.toFixed(places)));

/// A time of a schedule in the unit of its file; 1000 and more of it in the next.
function timeText(schedule, time) {
  let value = time * schedule.scale, { unit, places } = schedule, at = UNITS.indexOf(unit);
  for (; at >= 0 && at + 1 < UNITS.length && Math.abs(value) >= 1000; ++at) {
    value /= 1000;
    places += 3;
    unit = UNITS[at + 1];
  }
  const text = decimal(value, places);
  return `${text} ${unit === "ticks" && text === "1" ? "tick" : unit}`;
}

function sizeText(bytes) {
  for (const [unit, power] of [["TiB", 40], ["GiB", 30], ["MiB", 20], ["KiB", 10]])
    if (Math.abs(bytes) >= 2 ** power)
      return `${decimal(bytes / 2 ** power, 2)} ${unit}`;
  return `${bytes} B`;
}
const memoryText = (schedule, value) => (schedule.memoryIsBytes ? sizeText(value) : `${value} in flight`);

/// Smallest of 1, 2, 5 times a power of ten that is at least `least`.
function decimalStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((digit) => digit * power).find((step) => step >= least * (1 - 1e-9));
}

/// A range of time, in ticks or nanoseconds, within [least, most].
class View {
  constructor(least, most, smallest, ticks) {
    Object.assign(this, { least, most, smallest, ticks, from: least, to: most, changed: () => {} });
  }
  get span() {
    return this.to - this.from;
  }
  get isWhole() {
    return this.from <= this.least && this.to >= this.most;
  }
  show(from, to) {
    const span = Math.min(Math.max(to - from, this.smallest), this.most - this.least);
    const middle = (from + to) / 2;
    this.from = Math.min(Math.max(middle - span / 2, this.least), this.most - span);
    this.to = this.from + span;
    this.changed();
  }
  zoom(factor, about = (this.from + this.to) / 2) {
    const span = Math.min(Math.max(this.span * factor, this.smallest), this.most - this.least);
    const share = (about - this.from) / this.span;
    this.show(about - share * span, about + (1 - share) * span);
  }
  pan(share) {
    this.show(this.from + share * this.span, this.to + share * this.span);
  }
  whole() {
    this.show(this.least, this.most);
  }
  /// Marks about `apart` pixels from each other: [{time, text}], and the unit that they count.
  marks(width, apart) {
    let name = "ticks", length = 1;
    if (!this.ticks) {
      const at = Math.max(UNITS.findLastIndex((unit, i) => 1000 ** i <= this.to), 0);
      [name, length] = [UNITS[at], 1000 ** at];
    }
    let step = decimalStep((this.span / length / width) * apart);
    if (this.ticks)
      step = Math.max(step, 1);
    const places = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    const marks = [];
    for (let mark = Math.ceil(this.from / length / step - 1e-9); mark * step * length <= this.to * (1 + 1e-12); ++mark)
      marks.push({ time: mark * step * length, text: (mark * step).toFixed(places) });
    return { name, marks };
  }
}
