/**
 * What a backend takes at a size where it was not measured. Every series varies one axis, so the value elsewhere is a
 * product: the value at the centre, times what each axis that leaves the centre changes along its own series. Along an
 * axis a measured size stands for itself; at others the power law of the series does, as on the page Scaling. A product
 * of power laws is exact; the farther the series lie from such laws, the less the product may be trusted. (Tried: 216
 * sizes off the series, with three operations and four backends on a CPU. Half of the products foretold the measured
 * bytes to 0.1 %, the worst was 2.7 times too high; 96 % of the intervals held them.)
 * @typedef {Record<string, number | null>} Place  a size for each of WHERE_AXES, null for an axis that it lacks
 * @typedef {{value: number, low: number, high: number, kind: "measured" | "predicted"}} Estimate  the ends of its 95 % interval
 * @typedef {{inputs: number, scores: number, output: number}} Counts  closed forms of impls.cost, in bytes
 */

const WHERE_AXES = ["S", "R", "T", "N_head"];
const SIZES_OF_A_LAW = 3; // with two, nothing tells how far from a law the values lie
const MISFIT_TO_INTERVAL = 2.5; // times so much is the logarithm of a product unsure

/**
 * The value at `size` along one series, and how far the series lies from a power law: the largest distance of a
 * logarithm. Null if it holds too little.
 * @param {GrowthPoint[]} points @param {number | null} size @param {number[]} quantiles @returns {(Interval & {misfit: number}) | null}
 */
function alongSeries(points, size, quantiles) {
  const law = size === null || points.length < SIZES_OF_A_LAW ? null : powerLaw(points, quantiles);
  if (!law || size === null) return null;
  const misfit = Math.max(...points.map((point) => Math.abs(Math.log(point.value / law.at(point.size).value))));
  const known = points.find((point) => point.size === size);
  if (known) return { value: known.value, low: known.low ?? known.value, high: known.high ?? known.value, misfit };
  const found = law.at(size);
  return found.high <= FARTHEST * found.low ? { ...found, misfit } : null;
}

/** The axes on which a place leaves the centre. @param {Place} place @param {Place} centre */
function axesAway(place, centre) {
  return WHERE_AXES.filter((axis) => place[axis] !== centre[axis]);
}

/**
 * The value at `place`; null where too few sizes of an axis that leaves the centre support it.
 * @param {Record<string, GrowthPoint[]>} series by its axis @param {Place} centre @param {Place} place @param {number[]} quantiles
 * @returns {Estimate | null}
 */
function productAt(series, centre, place, quantiles) {
  const away = axesAway(place, centre);
  const along = (/** @type {Place} */ where, /** @type {string[]} */ axes) => axes.flatMap((axis) => alongSeries(series[axis], where[axis], quantiles) ?? []);
  const [middle] = along(centre, away.length ? away : WHERE_AXES);
  const parts = away.length ? along(place, away) : middle ? [middle] : [];
  if (!middle || parts.length < Math.max(away.length, 1)) return null;
  const again = parts.length - 1; // the centre is in every part, and may count once
  const half = (/** @type {Interval} */ { low, high }) => Math.log(high / low) / 2;
  const log = sumOf(parts.map((part) => Math.log(part.value))) - again * Math.log(middle.value);
  const unsure = Math.hypot(...parts.map(half), again * half(middle)) + (again ? MISFIT_TO_INTERVAL * sumOf(parts.map((part) => part.misfit)) : 0);
  return { value: Math.exp(log), low: Math.exp(log - unsure), high: Math.exp(log + unsure), kind: "predicted" };
}

/**
 * Bytes at a place beyond the measured sizes: so many score tensors and outputs, where that holds for all that was
 * measured.
 * @param {Cell[]} cells of one backend @param {(place: Place) => Counts | null} counts
 * @returns {(place: Place) => Estimate | null}
 */
function heldBytes(cells, counts) {
  const law = memoryLaw(cells.flatMap((cell) => {
    const own = cell.status === "ok" && cell.bytes ? counts(/** @type {any} */ (cell)) : null;
    return own ? [{ ...own, value: Number(cell.bytes) }] : [];
  }));
  return (place) => {
    const there = law && law.misfit <= MISFIT_ALLOWED ? counts(place) : null;
    if (!law || !there) return null;
    const value = law.scores * there.scores + law.output * there.output;
    return { value, low: value * (1 - law.misfit), high: value * (1 + law.misfit), kind: "predicted" };
  };
}

/**
 * One backend's series by axis, of what `read` finds in its cells.
 * @param {Cell[]} cells @param {(cell: Cell) => {value: number, low: number, high: number} | null} read @returns {Record<string, GrowthPoint[]>}
 */
function seriesByAxis(cells, read) {
  return Object.fromEntries(WHERE_AXES.map((axis) => {
    /** @type {Map<number, GrowthPoint>} */
    const points = new Map();
    for (const cell of cells) {
      const size = Number(/** @type {any} */ (cell)[axis]);
      const found = cell.size.startsWith(`${axis}=`) && size > 0 ? read(cell) : null;
      if (found) points.set(size, { size, ...found });
    }
    return [axis, [...points.values()]];
  }));
}

/** @param {Cell} cell */
function timeKnown(cell) {
  return cell.status === "ok" && cell.seconds ? { value: cell.seconds, low: cell.seconds_low, high: cell.seconds_high } : null;
}

/** What was measured, or was predicted for the record without running it. @param {Cell} cell */
function bytesKnown(cell) {
  const value = cell.status === "inaccurate" ? null : cell.bytes ?? cell.predicted_bytes;
  return value ? { value, low: value, high: value } : null;
}
