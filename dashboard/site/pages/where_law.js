/**
 * What a backend takes at a size where it was not measured. Every series varies one axis, so the value elsewhere is a
 * product: the value at the centre, times what each axis that leaves the centre changes along its own series. Along an
 * axis a measured size stands for itself; beyond those the power law of the series goes on from the nearest of them.
 * @typedef {Record<string, number | null>} Place  a size for each of WHERE_AXES, null for an axis that it lacks
 * @typedef {{value: number, low: number, high: number, kind: "measured" | "predicted"}} Estimate  the ends of its 95 % interval
 * @typedef {{size: number, log: number, half: number}} Known  a value's logarithm, and half the interval of that
 */

const WHERE_AXES = ["S", "R", "T", "N_head"];
const SIZES_OF_A_LAW = 3; // with two, nothing tells how far from a line the values lie

/**
 * The exponent of a power law through `points` and half its interval: dashboard/scaling.py's `fit`, in the same terms.
 * @param {Known[]} points @param {number[]} quantiles Student's t by degrees of freedom, from 1
 */
function exponentOf(points, quantiles) {
  const mean = (/** @type {number[]} */ values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const x = points.map((point) => Math.log(point.size));
  const [middle, level] = [mean(x), mean(points.map((point) => point.log))];
  const spread = x.reduce((sum, at) => sum + (at - middle) ** 2, 0);
  const slope = points.reduce((sum, point, n) => sum + (x[n] - middle) * point.log, 0) / spread;
  const own = Math.hypot(...points.map((point, n) => (x[n] - middle) * point.half)) / spread;
  const free = points.length - 2;
  const rest = Math.hypot(...points.map((point, n) => point.log - level - slope * (x[n] - middle)));
  const off = free > 0 ? quantiles[Math.min(free, quantiles.length) - 1] * rest / Math.sqrt(free * spread) : 0;
  return { slope, half: Math.max(own, off) };
}

/** The value at `size` along one series; null if it holds too little. @param {Known[]} points @param {number | null} size @param {number[]} quantiles @returns {Known | null} */
function alongSeries(points, size, quantiles) {
  if (size === null || points.length === 0) return null;
  const far = (/** @type {Known} */ point) => Math.abs(Math.log(size / point.size));
  const nearest = points.reduce((best, point) => far(point) < far(best) ? point : best);
  if (nearest.size === size) return nearest;
  if (points.length < SIZES_OF_A_LAW) return null;
  const { slope, half } = exponentOf(points, quantiles);
  const step = Math.log(size / nearest.size);
  return { size, log: nearest.log + slope * step, half: Math.hypot(nearest.half, half * step) };
}

/**
 * The value at `place`; null where fewer than two sizes of an axis that leaves the centre support it.
 * @param {Record<string, Known[]>} series by its axis @param {Place} centre @param {Place} place @param {number[]} quantiles
 * @returns {Estimate | null}
 */
function predictedAt(series, centre, place, quantiles) {
  const away = WHERE_AXES.filter((axis) => place[axis] !== centre[axis]);
  if (away.length === 0) {
    const found = WHERE_AXES.map((axis) => alongSeries(series[axis], centre[axis], quantiles)).find(Boolean);
    return found ? asEstimate(found.log, found.half) : null;
  }
  const parts = away.flatMap((axis) => alongSeries(series[axis], place[axis], quantiles) ?? []);
  const middles = away.flatMap((axis) => alongSeries(series[axis], centre[axis], quantiles) ?? []);
  if (parts.length < away.length || middles.length < away.length) return null;
  const again = away.length - 1; // the centre is in every part, and may count once
  const log = parts.reduce((sum, part) => sum + part.log, 0) - again * middles[0].log;
  return asEstimate(log, Math.hypot(...parts.map((part) => part.half), again * middles[0].half));
}

/** @param {number} log @param {number} half @returns {Estimate} */
function asEstimate(log, half) {
  return { value: Math.exp(log), low: Math.exp(log - half), high: Math.exp(log + half), kind: "predicted" };
}

/**
 * One backend's series by axis, of what `read` finds in its cells.
 * @param {Cell[]} cells @param {(cell: Cell) => {value: number, half: number} | null} read @returns {Record<string, Known[]>}
 */
function seriesByAxis(cells, read) {
  return Object.fromEntries(WHERE_AXES.map((axis) => {
    /** @type {Map<number, Known>} */
    const points = new Map();
    for (const cell of cells) {
      const size = Number(/** @type {any} */ (cell)[axis]);
      const found = cell.size.startsWith(`${axis}=`) && size > 0 ? read(cell) : null;
      if (found) points.set(size, { size, log: Math.log(found.value), half: found.half });
    }
    return [axis, [...points.values()]];
  }));
}

/** @param {Cell} cell */
function timeKnown(cell) {
  if (cell.status !== "ok" || !cell.seconds) return null;
  return { value: cell.seconds, half: Math.log(cell.seconds_high / cell.seconds_low) / 2 };
}

/** What is measured, or was predicted for the record without running it. @param {Cell} cell */
function bytesKnown(cell) {
  const value = cell.status === "inaccurate" ? null : cell.bytes ?? cell.predicted_bytes;
  return value ? { value, half: 0 } : null;
}
