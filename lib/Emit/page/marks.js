// What lies over a chart: the op under the pointer, and of the chosen op its inputs and users.

/// What is at a point of a chart: {op}, {idle}, {memory}, {item} of a lane, each with `time` and a device; or null.
function thingAt(chart, x, y) {
  const { schedule } = chart;
  if (x < chart.left || x > chart.left + chart.width)
    return null;
  const time = chart.time(x) / schedule.perUnit;
  if (time < schedule.from || time > schedule.to)
    return null;
  for (const row of chart.rows) {
    if (y >= row.y && y < row.y + chart.rowHeight) {
      const first = schedule.opAt(row.d, time);
      if (first < 0)
        return { idle: true, d: row.d, time };
      const parts = schedule.groupEnd(first) - first;
      return { op: first + Math.min(Math.floor(((y - row.y) / chart.rowHeight) * parts), parts - 1), d: row.d, time };
    }
    if (chart.memoryHeight && y >= row.memoryY && y < row.memoryY + chart.memoryHeight)
      return { memory: schedule.memoryAt(row.d, time), d: row.d, time };
  }
  for (const lane of chart.lanes)
    if (y >= lane.y && y < lane.y + lane.height) {
      const level = Math.floor((y - lane.y) / lane.each), slop = (2 / chart.width) * (chart.view.span / schedule.perUnit);
      const item = lane.items.find((i) => i.level === level && i.ready - slop <= time && time <= i.end + slop);
      return item ? { item, lane, time } : null;
    }
  return null;
}

/// Rectangle of an op; null where its device is not shown.
function boxOf(chart, op) {
  const { schedule } = chart, row = chart.rowOf.get(schedule.device[op]);
  if (!row)
    return null;
  const first = schedule.groupBegin(op), parts = schedule.groupEnd(first) - first, height = chart.rowHeight / parts;
  const x = chart.xOf(schedule.start[op]);
  return { x, y: row.y + (op - first) * height, width: Math.max(chart.xOf(schedule.end[op]) - x, 2), height };
}

function outline(pen, box, color, width) {
  pen.strokeStyle = color;
  pen.lineWidth = width;
  pen.strokeRect(box.x - 0.5, box.y - 0.5, box.width, box.height + 1);
}

function arrow(pen, from, to) {
  const [ax, ay, bx, by] = [from.x + from.width, from.y + from.height / 2, to.x, to.y + to.height / 2];
  const bend = Math.max(Math.min(Math.abs(bx - ax) / 2, 60), ay === by ? 0 : 14), lift = ay === by ? 16 : 0;
  const head = 6, angle = lift > 0 ? Math.PI / 4 : 0;
  pen.beginPath();
  pen.moveTo(ax, ay);
  pen.bezierCurveTo(ax + bend, ay - lift, bx - bend, by - lift, bx, by);
  pen.stroke();
  pen.setLineDash([]);
  pen.beginPath();
  pen.moveTo(bx, by);
  for (const side of [-0.45, 0.45])
    pen.lineTo(bx - head * Math.cos(angle + side), by - head * Math.sin(angle + side));
  pen.closePath();
  pen.fill();
}

function drawMarks(chart) {
  const { schedule, page } = chart, pen = chart.contextOf(chart.over);
  const chosen = page.chosen?.chart === chart ? page.chosen.op : -1, pointed = page.pointed?.chart === chart ? page.pointed : null;
  // Charts of one scale show the same time.
  const at = page.pointed?.chart.view === chart.view ? (page.pointed.time * page.pointed.chart.schedule.perUnit) / schedule.perUnit : -1;
  let arrows = 0;
  pen.save();
  pen.beginPath();
  pen.rect(chart.left, 0, chart.width, chart.height);
  pen.clip();
  if (at >= 0) {
    const x = Math.round(chart.xOf(at)) + 0.5;
    pen.strokeStyle = chart.colors.muted;
    pen.lineWidth = 1;
    pen.setLineDash([2, 3]);
    pen.beginPath();
    pen.moveTo(x, 0);
    pen.lineTo(x, chart.height);
    pen.stroke();
    pen.setLineDash([]);
    if (pointed?.op >= 0)
      outline(pen, boxOf(chart, pointed.op), chart.colors.ink, 1.5);
  }
  const box = chosen >= 0 ? boxOf(chart, chosen) : null;
  if (box) {
    const draw = (others, toChosen, color, dash) => {
      for (const { op } of others) {
        const other = boxOf(chart, op);
        if (!other || schedule.groupBegin(op) === schedule.groupBegin(chosen))
          continue;
        ++arrows;
        outline(pen, other, color, 1.5);
        pen.strokeStyle = pen.fillStyle = color;
        pen.lineWidth = 1.6;
        pen.setLineDash(dash);
        arrow(pen, toChosen ? other : box, toChosen ? box : other);
        pen.setLineDash([]);
      }
    };
    draw(schedule.usersOf(chosen), false, chart.colors.users, [5, 3]);
    draw(schedule.inputsOf(chosen), true, chart.colors.inputs, []);
    outline(pen, box, chart.colors.ink, 2.5);
    drawSlack(chart, pen, chosen, box);
  }
  pen.restore();
  chart.drawAxis();
  if (at >= 0)
    drawTime(chart, at);
  chart.place.dataset.arrows = arrows;
}

/// How much later the chosen op could end.
function drawSlack(chart, pen, op, box) {
  const { schedule } = chart, slack = schedule.slack?.[op] ?? 0;
  if (slack <= 0)
    return;
  const from = box.x + box.width, to = chart.xOf(schedule.end[op] + slack), y = box.y + box.height / 2;
  pen.strokeStyle = chart.colors.ink;
  pen.lineWidth = 1.5;
  pen.beginPath();
  pen.moveTo(from, y);
  pen.lineTo(to, y);
  pen.moveTo(to, y - 5);
  pen.lineTo(to, y + 5);
  pen.stroke();
}

/// The time under the pointer, on the axis.
function drawTime(chart, time) {
  const pen = chart.axis.getContext("2d"), text = timeText(chart.schedule, rounded(chart, time)), half = 5 + text.length * 3.2;
  const x = Math.min(Math.max(chart.xOf(time), chart.left + half), chart.left + chart.width - half);
  pen.font = `11px ${FONT}`;
  pen.fillStyle = chart.colors.ink;
  pen.fillRect(x - half, 2, 2 * half, 16);
  pen.fillStyle = chart.colors.page;
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  pen.fillText(text, x, 10.5);
}

/// A time under the pointer as exactly as a pixel tells.
function rounded(chart, time) {
  const step = decimalStep((chart.view.span / chart.schedule.perUnit / chart.width) * chart.schedule.scale);
  return (Math.round((time * chart.schedule.scale) / step) * step) / chart.schedule.scale;
}
