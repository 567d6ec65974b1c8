// One schedule as the charts use it: typed arrays by op, in program order, device by device.
const FOLLOWS = 1, STARTED = 2, WAITS = 4; // bits of form
const SHADES = 6;

/// Least i in [low, high) for which `holds(i)`; it holds from some i on.
function firstOf(low, high, holds) {
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (holds(middle))
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

class Schedule {
  constructor(data, lookOf) {
    Object.assign(this, data);
    this.perUnit = data.scale * data.base; // ticks or nanoseconds
    for (const name of ["kind", "form", "stage", "microbatch", "site", "waitsBack", "waitsKind", "waitsTransfer",
                        "edgeCount", "edgeKind", "edgeBack", "critical"])
      this[name] = readColumn(data[name]);
    this.slack = data.slack ? readColumn(data.slack) : null;
    this.size = this.kind.length;
    this.places = data.places;
    this.readTimes(readColumn(data.gap), readColumn(data.duration), lookOf);
    this.edgeBegin = new Uint32Array(this.size + 1);
    for (let op = 0; op < this.size; ++op)
      this.edgeBegin[op + 1] = this.edgeBegin[op] + this.edgeCount[op];
    this.isCritical = new Uint8Array(this.size);
    for (const first of this.critical)
      for (let op = first; op < this.groupEnd(first); ++op)
        this.isCritical[op] = 1;
    this.shown = this.devices.map((device, d) => d).filter((d) => this.devices[d].shown);
    this.readTransfers(data.transfers);
    this.readBeside(data.beside);
    this.readMemory(data.memory);
  }

  readTimes(gap, duration, lookOf) {
    this.start = new Float64Array(this.size);
    this.end = new Float64Array(this.size);
    this.device = new Uint32Array(this.size);
    this.color = new Uint8Array(this.size); // look * SHADES + shade
    this.begin = [0]; // by device, its first op
    let op = 0;
    this.devices.forEach((device, d) => {
      const { stages } = device, count = Math.min(Math.max(stages.length, 1), SHADES);
      const shadeOf = new Map(stages.map((stage, at) => {
        const rank = stages.length <= SHADES ? at : Math.floor((at * SHADES) / stages.length);
        return [stage, count === 1 ? 0 : Math.floor((rank * (SHADES - 1)) / (count - 1))];
      }));
      for (let before = 0, last = op + device.ops; op < last; ++op) {
        const follows = this.form[op] & FOLLOWS;
        this.start[op] = follows ? this.start[op - 1] : before + gap[op];
        this.end[op] = follows ? this.end[op - 1] : this.start[op] + duration[op];
        before = this.end[op];
        this.device[op] = d;
        this.color[op] = lookOf[this.kind[op]] * SHADES + (shadeOf.get(this.stage[op]) ?? 0);
      }
      this.begin.push(op);
    });
  }

  readTransfers(data) {
    const from = readColumn(data.from), ahead = readColumn(data.ahead), wait = readColumn(data.wait);
    const queued = readColumn(data.queued), duration = readColumn(data.duration);
    const count = from.length, t = {
      from, to: from.map((op, i) => op + ahead[i]), ready: new Float64Array(count), begin: new Float64Array(count),
      end: new Float64Array(count), gradient: readColumn(data.gradient), link: readColumn(data.link),
      bytes: readColumn(data.bytes),
    };
    this.hasTransfers = false;
    for (let i = 0; i < count; ++i) {
      t.ready[i] = this.end[from[i]] + wait[i];
      t.begin[i] = t.ready[i] + queued[i];
      t.end[i] = t.begin[i] + duration[i];
      this.hasTransfers ||= t.end[i] > t.ready[i];
    }
    this.transfers = t;
  }

  readBeside(data) {
    const op = readColumn(data.op), begin = readColumn(data.begin), duration = readColumn(data.duration);
    this.beside = { op, begin, end: begin.map((time, i) => time + duration[i]) };
    this.hasTransfers ||= op.length > 0;
  }

  readMemory(data) {
    const count = readColumn(data.count), step = readColumn(data.step), value = readColumn(data.value);
    this.memoryIsBytes = data.bytes;
    this.memory = [];
    this.mostMemory = 0;
    let at = 0;
    this.shown.forEach((d, row) => {
      const time = step.subarray(at, at + count[row]), held = value.subarray(at, at + count[row]);
      let peak = 0;
      for (let i = 0; i < time.length; ++i) {
        time[i] += i > 0 ? time[i - 1] : 0;
        peak = Math.max(peak, held[i]);
      }
      this.memory[d] = { time, value: held, peak };
      this.mostMemory = Math.max(this.mostMemory, peak, this.devices[d].limit ?? 0);
      at += count[row];
    });
  }

  groupEnd(op) {
    let end = op + 1;
    while (end < this.size && this.form[end] & FOLLOWS)
      ++end;
    return end;
  }
  groupBegin(op) {
    while (this.form[op] & FOLLOWS)
      --op;
    return op;
  }

  nameOf(op) {
    if (this.names[op])
      return this.names[op];
    const prefix = this.form[op] & STARTED ? "start " : this.form[op] & WAITS ? "wait " : "";
    const microbatch = this.microbatch[op] < 0 ? "" : `, ${this.microbatch[op]}`;
    return `${prefix}${this.kinds[this.kind[op]]}(${this.stage[op]}${microbatch})`;
  }
  /// First op that has not ended by `time` on device d.
  firstAfter(d, time) {
    return firstOf(this.begin[d], this.begin[d + 1], (op) => this.end[op] > time);
  }
  /// What runs on device d at `time`; -1: nothing.
  opAt(d, time) {
    const op = this.firstAfter(d, time);
    return op < this.begin[d + 1] && this.start[op] <= time ? this.groupBegin(op) : -1;
  }
  memoryAt(d, time) {
    const curve = this.memory[d];
    if (!curve || curve.time.length === 0)
      return null;
    return curve.value[Math.max(firstOf(0, curve.time.length, (i) => curve.time[i] > time) - 1, 0)];
  }

  inputsOf(op) {
    const inputs = [];
    for (let i = this.edgeBegin[op]; i < this.edgeBegin[op + 1]; ++i)
      inputs.push({ op: op - this.edgeBack[i], kind: this.edges[this.edgeKind[i]] });
    return inputs;
  }
  usersOf(op) {
    if (!this.userBegin)
      this.findUsers();
    const users = [];
    for (let i = this.userBegin[op]; i < this.userBegin[op + 1]; ++i) {
      const user = this.users[i];
      for (const input of this.inputsOf(user))
        if (input.op === op)
          users.push({ op: user, kind: input.kind });
    }
    return users;
  }
  findUsers() {
    this.userBegin = new Uint32Array(this.size + 2);
    const inputs = (see) => {
      for (let op = 0; op < this.size; ++op)
        for (let i = this.edgeBegin[op]; i < this.edgeBegin[op + 1]; ++i)
          see(op - this.edgeBack[i], op);
    };
    inputs((from) => ++this.userBegin[from + 2]);
    for (let op = 1; op < this.userBegin.length; ++op)
      this.userBegin[op] += this.userBegin[op - 1];
    this.users = new Uint32Array(this.edgeBack.length);
    inputs((from, op) => (this.users[this.userBegin[from + 1]++] = op));
  }
  /// The message that brought a value from one op to another, if one did.
  transferBetween(from, to) {
    if (!this.incoming) {
      this.incoming = new Map();
      for (let i = 0; i < this.transfers.to.length; ++i)
        this.incoming.set(this.transfers.from[i] * this.size + this.transfers.to[i], i);
    }
    return this.incoming.get(from * this.size + to) ?? -1;
  }

  /// Rows of what is under way: a row a pair of devices, and one a device for what goes on beside its ops.
  /// What overlaps in a row lies in levels below each other.
  lanes() {
    if (this.foundLanes)
      return this.foundLanes;
    const found = new Map();
    const add = (key, label, item) => {
      if (!found.has(key))
        found.set(key, { key, label, items: [] });
      found.get(key).items.push(item);
    };
    const t = this.transfers, shown = (d) => this.devices[d].shown;
    for (let i = 0; i < t.from.length; ++i) {
      const a = this.device[t.from[i]], b = this.device[t.to[i]];
      if (t.end[i] > t.ready[i] && (shown(a) || shown(b)))
        add(a * 65536 + b, `${a} → ${b}`, { transfer: i, ready: t.ready[i], begin: t.begin[i], end: t.end[i] });
    }
    for (let i = 0; i < this.beside.op.length; ++i) {
      const op = this.beside.op[i], begin = this.beside.begin[i], d = this.device[op];
      if (shown(d))
        add(2 ** 32 + d, `${d}, beside`, { op, ready: begin, begin, end: this.beside.end[i] });
    }
    this.foundLanes = [...found.values()].sort((a, b) => a.key - b.key);
    for (const lane of this.foundLanes) {
      lane.items.sort((a, b) => a.ready - b.ready);
      const free = [];
      for (const item of lane.items) {
        let level = free.findIndex((time) => time <= item.ready);
        if (level < 0)
          level = free.length;
        free[level] = item.end;
        item.level = level;
      }
      lane.levels = free.length;
      lane.longest = lane.items.reduce((most, item) => Math.max(most, item.end - item.ready), 0);
    }
    return this.foundLanes;
  }
}
