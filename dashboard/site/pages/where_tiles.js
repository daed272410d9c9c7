/**
 * A backend at one size. `state`: it "runs"; there is "no room"; it "cannot" (unsupported, wrong, crashed, ...); or it is
 * "unknown", not measured and not to be predicted. `why` says so in words, unless it runs.
 * @typedef {{backend: string, state: "runs" | "no room" | "cannot" | "unknown", why: string, seconds: Estimate | null, bytes: Estimate | null, need: number | null, cell: Cell | null}} Entry
 *   `need`: bytes in all, inputs included
 * @typedef {{by: string, limit: number | null, wall: string, counts: (place: Place) => Counts | null, quantiles: number[]}} Rules
 *   `limit`: bytes that a call may need; `wall`: the backend whose memory wall is drawn
 * One size: who wins there. `level`: who ties with the first; `margin`: how far the next lies behind, in units of the
 * two's uncertainty (1: their intervals touch); `gain`: the first over eager; `beyond`: whether the wall's backend no
 * longer fits.
 * @typedef {{place: Place, entries: Entry[], kind: "measured" | "predicted" | "nothing fits" | "nothing ran" | "not measured", first: Entry | null, level: Entry[], next: Entry | null, margin: number, gain: number | null, gainKind: string, beyond: boolean | null}} Tile
 */

const CANNOT = new Set(["unsupported", "absent", "inaccurate", "crashed", "timeout"]);
const NO_ROOM = new Set(["too_big", "oom"]);
const BYTES_AS_ONE = 0.01; // memory is exact; less of a difference than this share is not worth the name

/** The axes of a map: down and across. @param {Cell[]} cells @returns {{down: string | null, across: string}} */
function axesOfMap(cells) {
  return { down: ["S", "T"].find((axis) => cells.some((cell) => /** @type {any} */ (cell)[axis] !== null)) ?? null, across: "R" };
}

/** The sizes along an axis that the record names. @param {Cell[]} cells @param {string | null} axis @returns {number[]} */
function sizesAlong(cells, axis) {
  if (axis === null) return [];
  return distinct(cells, (cell) => Number(/** @type {any} */ (cell)[axis])).filter((size) => size > 0).sort((a, b) => a - b);
}

/** What every axis is held at while others vary. @param {Cell[]} cells @returns {Place} */
function centreOf(cells) {
  return Object.fromEntries(WHERE_AXES.map((axis) => {
    const still = cells.filter((cell) => !cell.size.startsWith(`${axis}=`));
    const groups = [...groupBy(still.length ? still : cells, (cell) => String(/** @type {any} */ (cell)[axis]))];
    const [, [cell]] = groups.reduce((most, group) => group[1].length > most[1].length ? group : most);
    return [axis, /** @type {any} */ (cell)[axis]];
  }));
}

/** @param {Place} place */
function placeKey(place) {
  return WHERE_AXES.map((axis) => place[axis] ?? "").join();
}

/**
 * All tiles of one operation, row by row.
 * @param {Cell[]} cells of one operation, dtype and direction @param {Place[]} places @param {Rules} rules @returns {Tile[]}
 */
function tilesOf(cells, places, rules) {
  const centre = centreOf(cells);
  const backends = [...groupBy(cells, (cell) => cell.backend)].map(([backend, own]) => ({
    backend, own: bestByPlace(own), seconds: seriesByAxis(own, timeKnown), bytes: seriesByAxis(own, bytesKnown), held: heldBytes(own, rules.counts),
  }));
  return places.map((place) => tileOf(place, backends.map(({ backend, own, seconds, bytes, held }) => {
    const here = own.get(placeKey(place)) ?? null;
    if (here?.status === "ok" && here.seconds) return withRoom(measuredEntry(here), rules, rules.counts(place)?.inputs ?? 0);
    const product = productAt(bytes, centre, place, rules.quantiles);
    const inside = axesAway(place, centre).every((axis) => bytes[axis].some((point) => point.size === place[axis]));
    const entry = unmeasuredEntry(backend, here, answersNear(own, centre, place), productAt(seconds, centre, place, rules.quantiles),
      inside ? product : held(place) ?? product, rules);
    return withRoom(entry, rules, rules.counts(place)?.inputs ?? 0);
  }), rules));
}

/** The cell that says most at each place: a size may stand in several series. @param {Cell[]} cells @returns {Map<string, Cell>} */
function bestByPlace(cells) {
  const rank = (/** @type {Cell} */ cell) => cell.status === "ok" ? 0 : cell.status === "not_run" ? 2 : 1;
  const best = new Map();
  for (const cell of cells) {
    const key = placeKey(/** @type {any} */ (cell));
    const known = best.get(key);
    if (!known || rank(cell) < rank(known)) best.set(key, cell);
  }
  return best;
}

/** @param {Cell} cell @returns {Entry} */
function measuredEntry(cell) {
  const { backend, seconds, seconds_low: low, seconds_high: high, bytes } = cell;
  return {
    backend, cell, state: "runs", why: "", need: null,
    seconds: { value: /** @type {number} */ (seconds), low, high, kind: "measured" },
    bytes: bytes === null ? null : { value: bytes, low: bytes, high: bytes, kind: "measured" },
  };
}

/**
 * How a backend answered at the sizes of a place that was not tried, each with the others at the centre: the refusals,
 * and whether there was nothing else.
 * @param {Map<string, Cell>} own @param {Place} centre @param {Place} place @returns {{refusal: Cell | null, always: boolean}}
 */
function answersNear(own, centre, place) {
  const away = WHERE_AXES.filter((axis) => place[axis] !== centre[axis]);
  const near = away.flatMap((axis) => own.get(placeKey({ ...centre, [axis]: place[axis] })) ?? []);
  if (near.length === 0) near.push(...own.values());
  const refusals = near.filter((cell) => CANNOT.has(cell.status) || cell.status === "oom");
  return { refusal: refusals[0] ?? null, always: refusals.length === near.length };
}

/**
 * @param {string} backend @param {Cell | null} here @param {{refusal: Cell | null, always: boolean}} near
 * @param {Estimate | null} seconds @param {Estimate | null} bytes @param {Rules} rules @returns {Entry}
 */
function unmeasuredEntry(backend, here, { refusal, always }, seconds, bytes, rules) {
  const recorded = here?.predicted_bytes;
  const held = recorded ? { value: recorded, low: recorded, high: recorded, kind: /** @type {const} */ ("predicted") } : bytes;
  /** @type {Entry} */
  const entry = { backend, cell: here, state: "runs", why: "", need: null, seconds, bytes: held };
  const said = here ? `${words(here.status)}: ${here.reason}` : "";
  if (here && (CANNOT.has(here.status) || here.status === "oom")) {
    return { ...entry, state: here.status === "oom" ? "no room" : "cannot", why: said, seconds: null };
  }
  if (!here && refusal) {
    return { ...entry, state: always ? "cannot" : "unknown", why: `${words(refusal.status)} at ${sizeHeading(refusal.size)}: ${refusal.reason}`, seconds: null };
  }
  if (here?.status === "too_big" && rules.by !== "within") return { ...entry, state: "no room", why: said };
  const known = rules.by === "memory" ? held : seconds;
  return known ? entry : { ...entry, state: "unknown", why: said || "not measured here, and at too few sizes to predict it" };
}

/** `entry` with what it needs in all; one that needs more than the limit does not run. @param {Entry} entry @param {Rules} rules @param {number} inputs @returns {Entry} */
function withRoom(entry, { by, limit }, inputs) {
  const need = entry.bytes && entry.bytes.value + inputs;
  const ran = entry.seconds?.kind === "measured";
  const room = need === null || limit === null || need <= limit || (ran && by !== "within");
  if (entry.state === "runs" && by === "within" && need === null) return { ...entry, state: "unknown", why: "its memory is not known" };
  if (room || entry.state === "cannot") return { ...entry, need };
  const why = entry.state === "no room" ? entry.why
    : `needs ${entry.bytes?.kind === "measured" ? "" : "about "}${si(need, "B")}, inputs included; ${si(limit, "B")} allowed`;
  return { ...entry, need, state: "no room", why };
}

/** @param {Place} place @param {Entry[]} entries @param {Rules} rules @returns {Tile} */
function tileOf(place, entries, rules) {
  const pick = (/** @type {Entry} */ entry) => rules.by === "memory" ? entry.bytes : entry.seconds;
  const able = entries.filter((entry) => entry.state === "runs" && pick(entry));
  const ran = able.filter((entry) => pick(entry)?.kind === "measured");
  const { first, level, next, margin } = winnerOf(ran.length ? ran : able, pick, rules.by === "memory" ? BYTES_AS_ONE : 0);
  const eager = entries.find((entry) => entry.backend === "eager");
  const ours = first && pick(first);
  const eagers = eager && (eager.state === "runs" || (rules.by === "memory" && eager.state === "no room")) ? pick(eager) : null;
  const walled = entries.find((entry) => entry.backend === rules.wall);
  return {
    place, entries, first, level, next, margin,
    kind: first ? (ran.length ? "measured" : "predicted") : kindOfNothing(entries),
    gain: ours && eagers ? eagers.value / ours.value : null,
    gainKind: ours?.kind === "measured" && eagers?.kind === "measured" ? "measured" : "predicted",
    beyond: !walled || rules.limit === null ? null : walled.state === "no room" ? true : walled.state === "cannot" || walled.need === null ? null : false,
  };
}

/** @param {Entry[]} entries @returns {"nothing fits" | "nothing ran" | "not measured"} */
function kindOfNothing(entries) {
  if (entries.some((entry) => entry.state === "no room")) return "nothing fits";
  return entries.some((entry) => entry.state === "unknown") ? "not measured" : "nothing ran";
}

/**
 * The best of `able`, who ties with it, and the margin to the next.
 * @param {Entry[]} able @param {(entry: Entry) => Estimate | null} pick @param {number} atLeast share that counts as no difference
 */
function winnerOf(able, pick, atLeast) {
  const value = (/** @type {Entry} */ entry) => /** @type {Estimate} */ (pick(entry));
  const [best, ...others] = able.toSorted((a, b) => value(a).value - value(b).value);
  if (!best) return { first: null, level: [], next: null, margin: 0 };
  const margin = (/** @type {Entry} */ entry) => {
    const unsure = Math.log(value(best).high / value(best).value) + Math.log(value(entry).value / value(entry).low);
    return Math.log(value(entry).value / value(best).value) / Math.max(unsure, Math.log1p(atLeast), 1e-9);
  };
  const next = others.length ? others.reduce((a, b) => margin(b) < margin(a) ? b : a) : null;
  return { first: best, next, level: others.filter((entry) => margin(entry) <= 1), margin: next ? margin(next) : Infinity };
}
