// The picture of one schedule: an axis that stays in sight, a row a device, and, on demand, memory and messages.
// Drawn anew whenever the time shown changes; what follows the pointer lies on a canvas over it (marks.js).
const AXIS = 30, GAP = 4, BIN = 2, LANE = 13;
const FONT = 'system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif';

/// `share` of 100 parts of another colour mixed in, as Emit/Palette does.
function mixed(color, other, share) {
  const part = (hex, at) => parseInt(hex.slice(at, at + 2), 16);
  return "#" + [1, 3, 5].map((at) => Math.floor((part(color, at) * (100 - share) + part(other, at) * share + 50) / 100)
    .toString(16).padStart(2, "0")).join("");
}

class Chart {
  constructor(place, schedule, view, page) {
    Object.assign(this, { place, schedule, view, page });
    for (const part of ["axis", "base", "over"]) {
      this[part] = document.createElement("canvas");
      this[part].className = part;
    }
    const { name, parameters, shown } = schedule;
    this.over.tabIndex = 0;
    this.over.setAttribute("role", "application");
    this.over.setAttribute("aria-roledescription", "timeline");
    this.over.setAttribute("aria-label", `Timeline of ${name}${parameters && ` at ${parameters}`}, ${shown.length} devices, ` +
      `${timeText(schedule, schedule.makespan)}. Arrow keys move, plus and minus zoom, Shift with arrows goes from op ` +
      "to op; all figures stand in tables below.");
    const plot = document.createElement("div");
    plot.className = "plot";
    plot.append(this.base, this.over);
    place.append(this.axis, plot);
    this.layOut();
  }

  time(x) {
    return this.view.from + ((x - this.left) / this.width) * this.view.span;
  }
  x(time) { // of the view
    return this.left + ((time - this.view.from) / this.view.span) * this.width;
  }
  xOf(time) { // of the schedule
    return this.x(time * this.schedule.perUnit);
  }

  /// Where everything lies, for the width at hand.
  layOut(given = this.place.clientWidth) {
    const { schedule, page } = this, count = schedule.shown.length;
    this.full = Math.max(given, 200);
    this.narrow = this.full < 640;
    this.left = this.narrow ? 58 : 104;
    this.width = this.full - this.left - 10;
    const room = (window.innerHeight - 260) / Math.max(count, 1) - GAP;
    this.rowHeight = page.printing ? Math.max(4, Math.min(24, 470 / count - 2))
      : Math.round(Math.max(9, Math.min(count <= 8 ? 30 : 24, room)));
    this.memoryHeight = page.shows.memory ? Math.max(12, Math.min(26, this.rowHeight)) : 0;
    const gap = this.rowHeight < 14 && !this.memoryHeight ? 2 : GAP;
    let y = 2;
    this.rows = schedule.shown.map((d) => {
      const row = { d, y, memoryY: y + this.rowHeight + 1 };
      y += this.rowHeight + (this.memoryHeight ? this.memoryHeight + 1 : 0) + gap;
      return row;
    });
    this.rowOf = new Map(this.rows.map((row) => [row.d, row]));
    this.lanes = [];
    if (page.shows.transfers && schedule.hasTransfers) {
      y += 8;
      this.lanes = schedule.lanes().map((lane) => {
        const height = Math.max(LANE, Math.min(lane.levels, 6) * 5), at = y;
        y += height + 3;
        return { ...lane, y: at, height, each: height / Math.max(lane.levels, 1) };
      });
    }
    this.height = y + 4;
    const ratio = page.printing ? 3 : window.devicePixelRatio || 1;
    for (const [canvas, height] of [[this.axis, AXIS], [this.base, this.height], [this.over, this.height]]) {
      canvas.width = Math.round(this.full * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.height = page.printing ? "auto" : `${height}px`;
    }
    this.ratio = ratio;
    this.draw();
  }

  contextOf(canvas) {
    const pen = canvas.getContext("2d");
    pen.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    pen.clearRect(0, 0, this.full, canvas.height);
    return pen;
  }

  draw() {
    const pen = this.contextOf(this.base);
    this.pen = pen;
    this.colors = this.page.colors;
    this.drawTracks();
    this.drawGrid();
    this.drawAxis();
    this.drawLabels();
    pen.save();
    pen.beginPath();
    pen.rect(this.left, 0, this.width, this.height);
    pen.clip();
    this.merged = false;
    for (const row of this.rows) {
      this.drawRow(row);
      if (this.memoryHeight)
        this.drawMemory(row);
    }
    for (const lane of this.lanes)
      this.drawLane(lane);
    if (this.page.shows.critical)
      this.drawCriticalPath();
    pen.restore();
    const { place, view } = this;
    place.dataset.from = view.from;
    place.dataset.to = view.to;
    place.dataset.shares = this.merged;
  }

  drawTracks() {
    const { pen, schedule } = this;
    const from = Math.max(this.xOf(schedule.from), this.left);
    const to = Math.min(this.xOf(schedule.to), this.left + this.width);
    pen.fillStyle = this.colors.track;
    for (const row of this.rows)
      pen.fillRect(from, row.y, Math.max(to - from, 0), this.rowHeight);
    pen.globalAlpha = 0.5;
    for (const lane of this.lanes)
      pen.fillRect(from, lane.y, Math.max(to - from, 0), lane.height);
    if (this.memoryHeight)
      for (const row of this.rows)
        pen.fillRect(from, row.memoryY, Math.max(to - from, 0), this.memoryHeight);
    pen.globalAlpha = 1;
  }

  marks() {
    return this.view.marks(this.width, this.narrow ? 64 : 84);
  }
  drawGrid() {
    const { pen } = this;
    pen.fillStyle = this.colors.grid;
    for (const { time } of this.marks().marks)
      pen.fillRect(Math.round(this.x(time)), 0, 1, this.height);
  }
  drawAxis() {
    const pen = this.contextOf(this.axis), { name, marks } = this.marks();
    pen.font = `11px ${FONT}`;
    pen.textBaseline = "alphabetic";
    pen.fillStyle = this.colors.muted;
    pen.textAlign = "left";
    pen.fillText(this.narrow ? name : `time, ${name}`, 0, 14);
    pen.textAlign = "center";
    for (const { time, text } of marks) {
      const x = this.x(time);
      pen.fillStyle = this.colors.grid;
      pen.fillRect(Math.round(x), AXIS - 10, 1, 10);
      pen.fillStyle = this.colors.muted;
      const half = pen.measureText(text).width / 2; // kept within the canvas
      pen.fillText(text, Math.min(Math.max(x, this.left + half - 6), this.full - half), 14);
    }
    if (this.view.isWhole)
      return;
    // Which part of the whole is shown.
    const { least, most, from, span } = this.view, all = most - least;
    pen.fillStyle = this.colors.track;
    pen.fillRect(this.left, AXIS - 9, this.width, 4);
    pen.fillStyle = this.colors.muted;
    pen.fillRect(this.left + ((from - least) / all) * this.width, AXIS - 9, Math.max((span / all) * this.width, 3), 4);
  }

  drawLabels() {
    const { pen, schedule } = this, size = Math.max(8, Math.min(12, this.rowHeight + 1));
    pen.textAlign = "left";
    pen.textBaseline = "middle";
    for (const { d, y, memoryY } of this.rows) {
      const middle = y + this.rowHeight / 2, { stages } = schedule.devices[d];
      const both = !this.narrow && this.rowHeight >= 22 && stages.length > 0;
      pen.font = `${size}px ${FONT}`;
      pen.fillStyle = this.colors.ink;
      pen.fillText(this.narrow ? `dev ${d}` : `device ${d}`, 0, both ? middle - 5 : middle);
      pen.font = `9.5px ${FONT}`;
      pen.fillStyle = this.colors.muted;
      const list = stages.length === 1 ? `stage ${stages[0]}` : `stages ${stages.join(", ")}`;
      if (both)
        pen.fillText(list.length > 19 ? `${stages.length} stages` : list, 0, middle + 7);
      if (this.memoryHeight)
        pen.fillText(`${this.narrow ? "" : "peak "}${memoryText(schedule, schedule.memory[d].peak).replace(" in flight", "")}`,
          0, memoryY + this.memoryHeight / 2);
    }
    pen.font = `10px ${FONT}`;
    for (const lane of this.lanes) {
      pen.fillStyle = this.colors.muted;
      pen.fillText(lane.label, 0, lane.y + lane.height / 2 + 0.5);
    }
  }

  /// First op that shows, and the first behind those that do.
  range(d) {
    const { schedule, view } = this, from = view.from / schedule.perUnit, to = view.to / schedule.perUnit;
    const first = schedule.firstAfter(d, from);
    return [first, firstOf(first, schedule.begin[d + 1], (op) => schedule.start[op] >= to)];
  }

  drawRow(row) {
    const [first, end] = this.range(row.d);
    if (end - first > this.width / 2)
      this.drawShares(row, first, end);
    else
      this.drawOps(row, first, end);
  }

  drawOps(row, first, last) {
    const { pen, schedule, rowHeight, page } = this, right = this.left + this.width;
    const labels = [], size = Math.min(12, rowHeight - 4);
    pen.font = `${size}px ${FONT}`;
    const digit = pen.measureText("0").width;
    for (let op = first, end; op < last; op = end) {
      end = schedule.groupEnd(op);
      if (schedule.start[op] >= schedule.end[op])
        continue;
      const from = Math.max(this.xOf(schedule.start[op]), this.left - 2), to = Math.min(this.xOf(schedule.end[op]), right + 2);
      const gap = to - from >= 4 ? 1 : 0, width = Math.max(to - from - gap, 0.5), parts = end - op;
      const each = rowHeight / parts, dim = page.shows.critical && !schedule.isCritical[op];
      pen.globalAlpha = dim ? 0.28 : 1;
      for (let part = 0; part < parts; ++part) {
        pen.fillStyle = this.colors.ops[schedule.color[op + part]];
        pen.fillRect(from, row.y + part * each, width, each);
      }
      if (!dim && each >= 11 && width >= digit + 4)
        labels.push(op, end, Math.max(from, this.left), Math.min(from + width, right));
    }
    pen.globalAlpha = 1;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    for (let i = 0; i < labels.length; i += 4)
      this.drawNumbers(row, labels[i], labels[i + 1], labels[i + 2], labels[i + 3], digit);
  }

  /// The microbatch of each member, or the whole name where it fits.
  drawNumbers(row, first, end, from, to, digit) {
    const { pen, schedule } = this, each = this.rowHeight / (end - first);
    pen.font = `${Math.min(12, each - 3)}px ${FONT}`;
    for (let op = first; op < end; ++op) {
      const number = schedule.microbatch[op] < 0 ? "" : String(schedule.microbatch[op]);
      pen.fillStyle = this.inkOn(op);
      const name = schedule.nameOf(op), room = to - from - 4, y = row.y + (op - first + 0.5) * each + 0.5;
      if (room >= name.length * digit * 0.95 + 6)
        pen.fillText(name, (from + to) / 2, y);
      else if (number && room >= number.length * digit)
        pen.fillText(number, (from + to) / 2, y);
    }
  }

  /// What does not compute is dark.
  inkOn(op) {
    return this.page.isDark[(this.schedule.color[op] / SHADES) | 0] ? this.colors.onDark : this.colors.onOps;
  }

  /// Where ops are narrower than pixels: the share of time that each kind takes.
  drawShares(row, first, last) {
    const { pen, schedule, rowHeight, page } = this, bins = Math.ceil(this.width / BIN);
    const perBin = (this.view.span / schedule.perUnit) * (BIN / this.width), base = this.view.from / schedule.perUnit;
    const looks = this.colors.ops.length / SHADES;
    const time = new Float64Array(bins * looks), critical = page.shows.critical ? new Float64Array(bins) : null;
    for (let op = first; op < last; ++op) {
      const parts = schedule.form[op] & FOLLOWS || schedule.form[op + 1] & FOLLOWS
        ? schedule.groupEnd(op) - schedule.groupBegin(op) : 1;
      const from = (schedule.start[op] - base) / perBin, to = (schedule.end[op] - base) / perBin;
      const look = (schedule.color[op] / SHADES) | 0;
      for (let bin = Math.max(Math.floor(from), 0); bin < bins && bin < to; ++bin) {
        const part = Math.min(to, bin + 1) - Math.max(from, bin);
        time[bin * looks + look] += part / parts;
        if (critical && schedule.isCritical[op])
          critical[bin] += part / parts;
      }
    }
    this.merged = true;
    // Edges lie on pixels, so that bins of like shares are one rectangle.
    const floor = new Float64Array(bins), ceiling = new Float64Array(bins), sum = new Float64Array(bins);
    const onPixel = (share) => Math.round(Math.min(share, 1) * rowHeight * this.ratio) / this.ratio;
    const stack = (look, color) => {
      for (let bin = 0; bin < bins; ++bin) {
        sum[bin] += look < 0 ? critical[bin] : time[bin * looks + look];
        ceiling[bin] = onPixel(sum[bin]);
      }
      pen.fillStyle = color;
      for (let bin = 0, next; bin < bins; bin = next) {
        for (next = bin + 1; next < bins && ceiling[next] === ceiling[bin] && floor[next] === floor[bin];)
          ++next;
        if (ceiling[bin] > floor[bin])
          pen.fillRect(this.left + bin * BIN, row.y + rowHeight - ceiling[bin], (next - bin) * BIN, ceiling[bin] - floor[bin]);
      }
      floor.set(ceiling);
    };
    pen.globalAlpha = critical ? 0.28 : 1;
    for (let look = 1; look < looks; ++look)
      stack(look, this.colors.ops[look * SHADES]);
    pen.globalAlpha = 1;
    if (critical) {
      floor.fill(0);
      sum.fill(0);
      stack(-1, this.colors.critical);
    }
  }

  drawMemory(row) {
    const { pen, schedule, memoryHeight } = this, { time, value } = schedule.memory[row.d];
    const most = schedule.mostMemory || 1, floor = row.memoryY + memoryHeight;
    const from = this.view.from / schedule.perUnit, to = this.view.to / schedule.perUnit;
    let i = Math.max(firstOf(0, time.length, (k) => time[k] > from) - 1, 0);
    pen.beginPath();
    pen.moveTo(this.left, floor);
    // Of the points within a pixel the most is shown, and the last goes on.
    for (let x = Math.max(this.xOf(time[i]), this.left); i < time.length && time[i] <= to;) {
      let peak = value[i], next = i + 1;
      while (next < time.length && this.xOf(time[next]) < x + 0.5)
        peak = Math.max(peak, value[next++]);
      const end = Math.min(next < time.length ? this.xOf(time[next]) : this.xOf(schedule.makespan), this.left + this.width);
      pen.lineTo(x, floor - (peak / most) * memoryHeight);
      if (next - i > 1) {
        pen.lineTo(Math.min(x + 0.5, end), floor - (peak / most) * memoryHeight);
        pen.lineTo(Math.min(x + 0.5, end), floor - (value[next - 1] / most) * memoryHeight);
      }
      pen.lineTo(end, floor - (value[next - 1] / most) * memoryHeight);
      x = Math.max(end, x + 0.5);
      i = next;
    }
    pen.lineTo(Math.min(this.xOf(schedule.makespan), this.left + this.width), floor);
    pen.closePath();
    pen.fillStyle = this.colors.memory;
    pen.fill();
    const { limit } = schedule.devices[row.d];
    if (limit !== undefined) {
      pen.fillStyle = this.colors.critical;
      pen.fillRect(this.left, floor - (limit / most) * memoryHeight, this.width, 1);
    }
  }

  drawLane(lane) {
    const { pen, schedule } = this, from = this.view.from / schedule.perUnit, to = this.view.to / schedule.perUnit;
    const first = firstOf(0, lane.items.length, (i) => lane.items[i].ready > from - lane.longest);
    let drawn = -1;
    for (let i = first; i < lane.items.length && lane.items[i].ready < to; ++i) {
      const item = lane.items[i], y = lane.y + item.level * lane.each, height = Math.max(lane.each - 1, 1);
      const begin = this.xOf(item.begin), end = Math.max(this.xOf(item.end), begin + 0.7);
      if (lane.levels === 1 && end < drawn + 0.5)
        continue;
      drawn = end;
      const op = item.op ?? -1, look = op >= 0 ? (schedule.color[op] / SHADES) | 0 : this.page.transferLook;
      const shade = item.transfer >= 0 && schedule.transfers.gradient[item.transfer] ? 0 : 2;
      pen.fillStyle = this.colors.ops[look * SHADES + shade];
      pen.fillRect(begin, y, end - begin, height);
      if (item.begin > item.ready) { // queues
        pen.fillStyle = this.colors.muted;
        pen.fillRect(this.xOf(item.ready), y + height / 2 - 0.5, begin - this.xOf(item.ready), 1);
      }
      if (item.transfer >= 0 && height >= 9 && end - begin > 26) {
        pen.font = `${Math.min(10, height - 2)}px ${FONT}`;
        pen.textAlign = "center";
        pen.textBaseline = "middle";
        pen.fillStyle = this.page.isDark[look] ? this.colors.onDark : this.colors.onOps;
        pen.fillText(String(schedule.microbatch[schedule.transfers.from[item.transfer]]), (begin + end) / 2, y + height / 2 + 0.5);
      }
    }
  }

  /// From op to op, across devices.
  drawCriticalPath() {
    const { pen, schedule } = this, { critical } = schedule;
    pen.strokeStyle = this.colors.critical;
    pen.lineWidth = 1.5;
    pen.beginPath();
    const middle = (op) => this.rowOf.get(schedule.device[op])?.y + this.rowHeight / 2;
    for (let i = 0; i < critical.length; ++i) {
      const op = critical[i], x = this.xOf(schedule.start[op]), y = middle(op), before = critical[i - 1];
      if (y === undefined || this.xOf(schedule.end[op]) < this.left - 1e4 || x > this.left + this.width + 1e4)
        continue;
      if (i > 0 && schedule.device[before] !== schedule.device[op] && this.rowOf.has(schedule.device[before])) {
        pen.moveTo(this.xOf(schedule.end[before]), middle(before));
        pen.lineTo(x, y);
      }
    }
    pen.stroke();
    pen.fillStyle = this.colors.critical;
    for (const op of critical) {
      const row = this.rowOf.get(schedule.device[op]), from = this.xOf(schedule.start[op]), to = this.xOf(schedule.end[op]);
      if (row && to > this.left && from < this.left + this.width && to - from > 3)
        pen.fillRect(from, row.y + this.rowHeight - 2, to - from - 1, 2);
    }
  }
}
