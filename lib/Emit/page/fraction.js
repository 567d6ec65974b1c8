// Exact fractions of whole numbers of any size.
class Fraction {
  constructor(top, bottom = 1n) {
    const common = (a, b) => (b ? common(b, a % b) : a < 0n ? -a : a), sign = bottom < 0n ? -1n : 1n;
    const shared = common(top, bottom) || 1n;
    this.top = (sign * top) / shared;
    this.bottom = (sign * bottom) / shared;
  }
  /// `4`, `0.5`, `1/3`; null for anything else.
  static read(text) {
    const match = /^\s*(\d*)(?:\.(\d+))?\s*(?:\/\s*(\d+)\s*)?$/.exec(text.replace(",", "."));
    if (!match || (!match[1] && !match[2]) || (match[3] && BigInt(match[3]) === 0n))
      return null;
    const places = match[2] ?? "";
    return new Fraction(BigInt((match[1] || "0") + places), 10n ** BigInt(places.length) * BigInt(match[3] ?? 1));
  }
  plus(other) {
    return new Fraction(this.top * other.bottom + other.top * this.bottom, this.bottom * other.bottom);
  }
  minus(other) {
    return this.plus(new Fraction(-other.top, other.bottom));
  }
  times(other) {
    return new Fraction(this.top * other.top, this.bottom * other.bottom);
  }
  over(other) {
    return new Fraction(this.top * other.bottom, this.bottom * other.top);
  }
  get sign() {
    return this.top > 0n ? 1 : this.top < 0n ? -1 : 0;
  }
  get number() {
    return Number(this.top) / Number(this.bottom);
  }
  /// A decimal where one of few places is exact, else `1/3`.
  toString() {
    if (1000000n % this.bottom !== 0n)
      return `${this.top}/${this.bottom}`;
    const millionths = (this.top * (1000000n / this.bottom)).toString().padStart(7, "0");
    return `${millionths.slice(0, -6)}.${millionths.slice(-6)}`.replace(/\.?0+$/, "");
  }
}
