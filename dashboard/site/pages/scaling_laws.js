/**
 * How a quantity grows: fitted here, series by series, since a record has more of them than a reader looks at. The same
 * fit as in dashboard/scaling.py.
 * @typedef {{size: number, value: number, low: number | null, high: number | null}} GrowthPoint
 * @typedef {{value: number, low: number, high: number}} Interval
 * @typedef {{slope: number, low: number, high: number, points: number, at: (size: number) => Interval}} PowerLaw
 *   an exponent and its 95 % interval; `at` is where the next measurement at another size should lie
 */

/**
 * Least squares on the logarithms; null for fewer than two sizes. The interval is the wider of what the points' own
 * amount to and, from three on, Student's t of their distances from the line.
 * @param {GrowthPoint[]} points @param {number[]} quantiles of Student's t, by degrees of freedom from 1 on @returns {PowerLaw | null}
 */
function powerLaw(points, quantiles) {
  if (distinct(points, ({ size }) => size).length < 2) return null;
  const x = points.map(({ size }) => Math.log(size));
  const y = points.map(({ value }) => Math.log(value));
  const errors = points.map(({ low, high }) => low && high ? Math.log(high / low) / 2 : 0);
  const [meanX, meanY] = [averageOf(x), averageOf(y)];
  const spread = sumOf(x.map((one) => (one - meanX) ** 2));
  const slope = sumOf(x.map((one, at) => (one - meanX) * y[at])) / spread;
  const free = x.length - 2;
  const rest = sumOf(x.map((one, at) => (y[at] - meanY - slope * (one - meanX)) ** 2));
  const scatter = free ? quantiles[Math.min(free, quantiles.length) - 1] * Math.sqrt(rest / free) : 0;
  const own = (/** @type {number[]} */ weights) => Math.sqrt(sumOf(weights.map((weight, at) => (weight * errors[at]) ** 2)));
  const half = Math.max(own(x.map((one) => (one - meanX) / spread)), scatter / Math.sqrt(spread));
  return {
    slope, low: slope - half, high: slope + half, points: x.length,
    at: (size) => {
      const away = Math.log(size) - meanX;
      const weights = x.map((one) => 1 / x.length + away * (one - meanX) / spread);
      const centre = meanY + slope * away;
      const off = Math.max(own(weights), scatter * Math.sqrt(1 + sumOf(weights.map((weight) => weight ** 2))));
      return { value: Math.exp(centre), low: Math.exp(centre - off), high: Math.exp(centre + off) };
    },
  };
}

/** @param {number[]} numbers */
function sumOf(numbers) {
  return numbers.reduce((sum, number) => sum + number, 0);
}

/** @param {number[]} numbers */
function averageOf(numbers) {
  return sumOf(numbers) / numbers.length;
}

/**
 * Bytes as so many score tensors and so many outputs.
 * @typedef {{scores: number, output: number, misfit: number}} MemoryLaw  misfit: the largest share by which a measured number is off
 */

const MISFIT_ALLOWED = 0.05;

/**
 * The simplest of two laws that holds within MISFIT_ALLOWED of every point: outputs alone, or scores and outputs, each
 * fitted to the relative distances. With as many unlike problems as it has terms a law would always hold: it needs one
 * more. Otherwise the better of those that can be judged, which then holds no prediction; null if none can.
 * @param {{value: number, scores: number, output: number}[]} points @returns {MemoryLaw | null}
 */
function memoryLaw(points) {
  const unlike = distinct(points, ({ scores, output }) => `${scores} ${output}`).length;
  const s = points.map(({ value, scores }) => scores / value);
  const o = points.map(({ value, output }) => output / value);
  /** @type {MemoryLaw[]} */
  const laws = [];
  const judge = (/** @type {number} */ scores, /** @type {number} */ output) => {
    laws.push({ scores, output, misfit: Math.max(...points.map((_, at) => Math.abs(scores * s[at] + output * o[at] - 1))) });
  };
  const [ss, so, oo] = [sumOfProducts(s, s), sumOfProducts(s, o), sumOfProducts(o, o)];
  if (unlike > 1) judge(0, sumOf(o) / oo);
  const determinant = ss * oo - so * so;
  if (unlike > 2 && determinant > 1e-12 * ss * oo) {
    const scores = (oo * sumOf(s) - so * sumOf(o)) / determinant;
    const output = (ss * sumOf(o) - so * sumOf(s)) / determinant;
    if (scores > 0 && output > 0) judge(scores, output);
  }
  const good = laws.find(({ misfit }) => misfit <= MISFIT_ALLOWED);
  return good ?? laws.sort((a, b) => a.misfit - b.misfit)[0] ?? null;
}

/** @param {number[]} a @param {number[]} b */
function sumOfProducts(a, b) {
  return sumOf(a.map((one, at) => one * b[at]));
}

/**
 * Where one backend takes over from another: `size` between the measured `from` and `to`, at which the order is sure.
 * @typedef {{before: string, after: string, size: number, value: number, from: number, to: number}} Crossover
 */

const APART = 1.02; // closer than this nobody is ahead, however sure the order

/**
 * The crossovers of two backends' measured points, whose intervals tell who is ahead at both ends; less is better, or
 * more is.
 * @param {string} a @param {GrowthPoint[]} ofA @param {string} b @param {GrowthPoint[]} ofB @param {boolean} more @returns {Crossover[]}
 */
function crossovers(a, ofA, b, ofB, more) {
  const shared = ofA.flatMap((one) => ofB.filter((other) => other.size === one.size).map((other) => ({
    size: one.size, value: one.value, ratio: Math.log(one.value / other.value), ahead: whoIsAhead(one, other),
  }))).sort((one, other) => one.size - other.size);
  /** @type {Crossover[]} */
  const found = [];
  let last = -1;
  shared.forEach(({ ahead }, at) => {
    if (!ahead) return;
    if (last >= 0 && shared[last].ahead !== ahead) {
      const bracket = shared.slice(last, at + 1);
      const where = meetingPoint(bracket);
      const [before, after] = (ahead < 0) !== more ? [b, a] : [a, b];
      found.push({ before, after, ...where, from: bracket[0].size, to: bracket[bracket.length - 1].size });
    }
    last = at;
  });
  return found;
}

/** -1 if `one` is surely smaller, 1 if `other` is, 0 if neither. @param {GrowthPoint} one @param {GrowthPoint} other */
function whoIsAhead(one, other) {
  if ((one.high ?? one.value) * APART < (other.low ?? other.value)) return -1;
  return (other.high ?? other.value) * APART < (one.low ?? one.value) ? 1 : 0;
}

/** Where the lines between the points meet for the last time. @param {{size: number, value: number, ratio: number}[]} bracket */
function meetingPoint(bracket) {
  const [end] = bracket.slice(-1);
  const at = bracket.findLastIndex(({ ratio }) => Math.sign(ratio) !== Math.sign(end.ratio));
  const [one, next] = bracket.slice(at, at + 2);
  const share = one.ratio / (one.ratio - next.ratio);
  return { size: onLogLine(one.size, next.size, share), value: onLogLine(one.value, next.value, share) };
}

/** On the line between two points of a logarithmic axis. @param {number} one @param {number} next @param {number} share */
function onLogLine(one, next, share) {
  return one ** (1 - share) * next ** share;
}

/** The size at which a line through `points` first reaches `value`; null if it does not. @param {GrowthPoint[]} points @param {number} value */
function sizeThatReaches(points, value) {
  const at = points.findIndex((point) => point.value >= value);
  if (at < 1) return at < 0 ? null : points[0].size;
  const [one, next] = points.slice(at - 1, at + 1);
  return onLogLine(one.size, next.size, Math.log(value / one.value) / Math.log(next.value / one.value));
}
