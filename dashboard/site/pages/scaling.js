/**
 * @typedef {{operation: string, level: string, dtype: string, direction: string, mask: string, axis: string, fixed: Record<string, number>, sizes: number[], flops: number[], moved: number[], scores: number[], output: number[]}} Curve
 * @typedef {{flops?: number, bytes?: number}} Roof
 * @typedef {{backend: string, size: number, value: number}} StoryPoint
 * @typedef {{curves: Curve[], roofs: Record<string, Record<string, Roof>>, quantiles: number[], memories: number[], story: StoryPoint[], charts: Record<string, any>}} Theory
 * @typedef {GrowthPoint & {kind: string, how: string}} Growing  `kind` is "measured" or "predicted", `how` says by whom
 * @typedef {{backend: string, points: Growing[], law: PowerLaw | null, memory: MemoryLaw | null}} Line  one backend's points by size, and what they follow
 * @typedef {{unit: string, title: string, noun: string, ahead: string, more: boolean, read: (cell: Cell) => Reading, theory: [string, "flops" | "moved" | "scores" | "output"][]}} Quantity
 */

const GROWING_AXES = /** @type {const} */ (["S", "R", "T", "N_head"]);
const FARTHEST = 10; // an extrapolation's interval may span so many times
const QUANTITY_LABELS = { time: "time", memory: "memory", rate: "FLOP/s" };
/** @type {Record<string, Quantity>} */
const QUANTITIES = {
  time: {
    ...DRAWN.time, noun: "time", ahead: "overtakes", more: false,
    theory: [["the work (FLOPs)", "flops"], ["the bytes that must move", "moved"]],
  },
  memory: {
    ...DRAWN.memory, noun: "memory", ahead: "needs less than", more: false,
    theory: [["the score tensor", "scores"], ["what is returned", "output"]],
  },
  rate: {
    unit: "FLOP/s", title: "FLOP/s reached", noun: "rate", ahead: "overtakes", more: true, theory: [],
    read: ({ flops, seconds, seconds_low, seconds_high }) => flops && seconds
      ? measuredOnly(flops / seconds, flops / seconds_high, flops / seconds_low) : measuredOnly(null),
  },
};

addPage("scaling", {
  title: "Scaling",
  about: "How time, memory and speed grow with each size of the problem, where backends change places, and how near they come to what the machine can do.",
  uses: ["place", "commit", "direction", "dtype"],
  choices: {
    operation: { legend: "Operation", as: "select", values: (shown) => scalingOperations(shown) },
    quantity: { legend: "Quantity", values: () => QUANTITY_LABELS },
    axis: { legend: "Over", values: (shown) => plainLabels(scalingAxes(cellsOfOperation(shown))) },
    sort: { legend: "", values: null },
    filter: { legend: "", values: null },
  },
  draw: async (shown) => {
    /** @type {Theory} */
    const theory = await load("scaling");
    return [...drawGrowth(shown, theory), ...drawRoofline(shown, theory), ...drawStory(theory)];
  },
});

/** Operations by name and level, with their titles. @param {Shown} shown @returns {Record<string, string>} */
function scalingOperations({ cells }) {
  return Object.fromEntries(operationsOf(cells.filter((cell) => cell.level !== "stack"))
    .map(([cell]) => [scalingOperation(cell), shorten(titleOf(cell), 60)]));
}

/** @param {Cell} cell */
function scalingOperation({ operation, level }) {
  return `${operation} ${level}`;
}

/** What is chosen, along every axis. @param {Shown} shown @returns {Cell[]} */
function cellsOfOperation({ cells, chosen }) {
  return cells.filter((cell) => cell.direction === chosen.direction && cell.dtype === chosen.dtype
    && scalingOperation(cell) === chosen.operation);
}

/** The axes that series vary. @param {Cell[]} cells @returns {string[]} */
function scalingAxes(cells) {
  return GROWING_AXES.filter((axis) => cells.some((cell) => isAlong(cell, axis)));
}

/** @param {Cell} cell @param {string} axis */
function isAlong(cell, axis) {
  return cell.size === `${axis}=${cell[/** @type {"S"} */ (axis)]}`;
}

/** Cells of the series along `axis`; of several the one with most numbers. @param {Cell[]} cells @param {string} axis */
function seriesAlong(cells, axis) {
  const groups = groupBy(cells.filter((cell) => isAlong(cell, axis)), ({ module, series, mask }) => JSON.stringify([module, series, mask]));
  const numbers = (/** @type {Cell[]} */ own) => own.filter((cell) => cell.seconds !== null).length;
  return [...groups.values()].sort((a, b) => numbers(b) - numbers(a))[0] ?? [];
}

/** What theory says along `axis` of the problem of `cell`. @param {Theory} theory @param {Cell} cell @param {string} axis */
function curveOf({ curves }, cell, axis) {
  const about = /** @type {const} */ (["operation", "level", "dtype", "direction", "mask"]);
  const fixed = /** @type {const} */ (["B", "S", "R", "T", "N_head", "c"]);
  return curves.find((curve) => curve.axis === axis && about.every((name) => curve[name] === cell[name])
    && fixed.every((name) => name === axis || (curve.fixed[name] ?? null) === cell[name]));
}

/** The numbers of theory for one cell. @param {Theory} theory @param {Cell} cell */
function theoryOf(theory, cell) {
  const axis = cell.size.split("=")[0];
  const curve = curveOf(theory, cell, axis);
  const at = curve?.sizes.indexOf(Number(cell[/** @type {"S"} */ (axis)])) ?? -1;
  return curve && at >= 0 ? { moved: curve.moved[at], scores: curve.scores[at], output: curve.output[at] } : null;
}

/**
 * Every backend that has a number along the axis: what was measured, what the record predicts, and beyond both what the
 * laws foretell.
 * @param {Shown} shown @param {Theory} theory @returns {Line[]}
 */
function linesAlong(shown, theory) {
  const all = cellsOfOperation(shown);
  const { axis, quantity } = shown.chosen;
  const along = seriesAlong(all, axis);
  const curve = along.length ? curveOf(theory, along[0], axis) : undefined;
  return [...groupBy(along, (cell) => cell.backend)].flatMap(([backend, own]) => {
    const points = own.flatMap((cell) => recordedPoint(cell, axis, QUANTITIES[quantity])).sort((a, b) => a.size - b.size);
    if (points.length === 0) return [];
    const law = powerLaw(points.filter(({ kind }) => kind === "measured"), theory.quantiles);
    const memory = quantity === "memory" ? memoryLaw(heldBy(all.filter((cell) => cell.backend === backend), theory)) : null;
    const beyond = curve ? foretold(curve, points[points.length - 1].size, quantity, law, memory) : [];
    return [{ backend, points: [...points, ...beyond], law, memory }];
  }).sort((a, b) => b.points.length - a.points.length || a.points[0].value - b.points[0].value);
}

/** @param {Cell} cell @param {string} axis @param {Quantity} quantity @returns {Growing[]} */
function recordedPoint(cell, axis, { read, unit }) {
  const { value, low, high, kind } = read(cell);
  const size = cell[/** @type {"S"} */ (axis)];
  const right = cell.status === "ok" || (kind === "predicted" && cell.status !== "inaccurate");
  if (!value || !size || !right) return [];
  return [{ size, value, low, high, kind, how: kind === "measured" ? kind : `${kind} by the instrument${unit === "B" ? ", without running" : ""}` }];
}

/** A backend's measured bytes beside theory's. @param {Cell[]} cells @param {Theory} theory */
function heldBy(cells, theory) {
  return cells.flatMap((cell) => {
    const theirs = theoryOf(theory, cell);
    return cell.bytes && cell.status === "ok" && theirs ? [{ value: cell.bytes, ...theirs }] : [];
  });
}

/**
 * What the laws say of the curve's sizes beyond `last`.
 * @param {Curve} curve @param {number} last @param {string} quantity @param {PowerLaw | null} law @param {MemoryLaw | null} memory
 * @returns {Growing[]}
 */
function foretold(curve, last, quantity, law, memory) {
  return curve.sizes.flatMap((size, at) => {
    if (size <= last) return [];
    if (quantity === "memory") {
      if (!memory || memory.misfit > MISFIT_ALLOWED) return [];
      const value = memory.scores * curve.scores[at] + memory.output * curve.output[at];
      return [{ size, value, low: value * (1 - memory.misfit), high: value * (1 + memory.misfit), kind: "predicted", how: "predicted from closed forms" }];
    }
    if (!law || law.points < 3) return [];
    const range = law.at(size);
    return range.high > FARTHEST * range.low ? [] : [{ size, ...range, kind: "predicted", how: "extrapolated by the fit" }];
  });
}

/** "R^1.97". @param {string} axis @param {number} slope */
function powerOf(axis, slope) {
  return `${axis}^${slope.toFixed(2)}`;
}

/** "R^1.97 (1.90 to 2.05)". @param {string} axis @param {PowerLaw} law */
function powerWithin(axis, { slope, low, high }) {
  return powerOf(axis, slope) + (high - low >= 0.01 ? ` (${low.toFixed(2)} to ${high.toFixed(2)})` : "");
}

/** @param {number} size */
function roughly(size) {
  return Number(size.toPrecision(2)).toLocaleString("en");
}

/** Sizes that were measured, of all lines. @param {Line[]} lines */
function measuredSizes(lines) {
  return distinct(lines.flatMap(({ points }) => points.filter(({ kind }) => kind === "measured")), ({ size }) => size).sort((a, b) => a - b);
}
