// Columns of numbers as Emit/PackedColumn writes them.
function readColumn(text) {
  const bytes = atob(text);
  const distance = bytes.charCodeAt(0), hasRuns = bytes.charCodeAt(1) === 1;
  let at = 2;
  const number = () => {
    let value = 0, weight = 1, byte;
    do {
      byte = bytes.charCodeAt(at++);
      value += (byte & 127) * weight;
      weight *= 128;
    } while (byte >= 128);
    return value;
  };
  const values = new Float64Array(number());
  for (let i = 0; i < values.length;) {
    const coded = number(), difference = coded % 2 ? -(coded + 1) / 2 : coded / 2;
    for (let more = hasRuns ? number() : 0; more >= 0; --more, ++i)
      values[i] = difference + (distance > 0 && i >= distance ? values[i - distance] : 0);
  }
  return values;
}
