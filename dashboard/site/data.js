/**
 * @typedef {{operation: string, level: string, dtype: string, direction: string, answer: string, use: string[], sentences: string[], at: string, speedup: number | null, memory: number | null, cell: number | null}} Verdict  `cell` is the position of the one that `speedup` and `memory` tell of
 * @typedef {{hash: string, date: string, subject: string, dirty: boolean, cells?: Record<string, any[]>, strings?: string[], verdicts?: Verdict[], file?: string}} Commit  cells, their texts and verdicts are here or in the file
 * @typedef {{machine: string, env: string, threads: number | null, device: string, device_name: string, python: string, torch: string, commits: Commit[]}} View
 * @typedef {{title: string, algorithm: string, words: string}} Operation
 * @typedef {{strings: string[], places: Record<string, any[]>, views: View[], operations: Record<string, Operation>, axes: Record<string, string>, charts: Record<string, Record<string, any>>}} Data
 */

/**
 * One backend, one problem, one direction. Units: seconds, bytes, budgets; null is "not known".
 * @typedef {object} Cell
 * @property {string} module @property {string} series @property {string} size @property {string} direction
 * @property {string} backend @property {string} dtype @property {string} operation @property {string} level
 * @property {string} mask @property {string} status @property {string} reason @property {string} effort
 * @property {string} standing @property {number | null} S @property {number | null} R @property {number | null} T
 * @property {number | null} N_head @property {number | null} c @property {number | null} B
 * @property {number | null} blocks
 * @property {number | null} flops @property {number} n @property {number} rounds
 * @property {number | null} seconds @property {number} seconds_low @property {number} seconds_high
 * @property {number} seconds_q25 @property {number} seconds_q75
 * @property {number | null} speedup @property {number} speedup_low @property {number} speedup_high
 * @property {number | null} compile_seconds @property {number | null} bytes @property {number | null} predicted_bytes
 * @property {number | null} error @property {[string, number | null, number | null][]} errors
 * @property {string[]} kernels @property {string} machine @property {string} disturbed
 * @property {string} selection @property {string} range @property {string} command @property {string} measured
 * @property {string} [heading] what the card of several cells that share a place in a table calls their sizes
 *   `selection` and `range` are asv's options for the cell and for its commit
 */

const TEXT_COLUMNS = new Set(["module", "series", "size", "direction", "backend", "dtype", "operation", "level", "mask",
  "selection", "status", "reason", "effort", "standing", "machine", "disturbed", "measured"]);

/** @returns {Data} */
function readData() {
  return JSON.parse(/** @type {HTMLElement} */ (document.getElementById("data")).textContent ?? "");
}

/** @type {WeakMap<Commit, Cell[]>} */
const decoded = new WeakMap();

/** The cells of one commit. @param {Data} data @param {Commit} commit @returns {Cell[]} */
function cellsOf(data, commit) {
  const known = decoded.get(commit);
  if (known) return known;
  const { cells: ofCommit, strings } = commit;
  if (!ofCommit || !strings) throw new Error(`the cells of ${commit.hash} are not loaded`);
  const cells = ofCommit.place.map((place, at) => {
    /** @type {any} */
    const cell = {};
    for (const [columns, row, texts] of /** @type {const} */ ([[data.places, place, data.strings], [ofCommit, at, strings]])) {
      for (const [name, values] of Object.entries(columns)) {
        const value = values[row] ?? null;
        cell[name] = TEXT_COLUMNS.has(name) ? texts[value] : value;
      }
    }
    cell.errors ??= [];
    cell.kernels = (cell.kernels ?? []).map((/** @type {number} */ kernel) => strings[kernel]);
    cell.range = /^[0-9a-f]+$/.test(commit.hash) ? `${commit.hash.slice(0, 8)}^!` : "";
    cell.command = commandOf([cell]);
    return /** @type {Cell} */ (cell);
  });
  decoded.set(commit, cells);
  return cells;
}

/** The command that measures cells of one commit again. @param {Cell[]} cells */
function commandOf(cells) {
  const [{ effort, range }] = cells;
  const prefix = /^[a-z]+$/.test(effort) ? `AXIALBENCH_EFFORT=${effort} ` : "";
  return `${prefix}asv run ${distinct(cells, (cell) => cell.selection).join(" ")} ${range}`;
}

/** Unlike values of `key`, in order of first appearance. @template T, V @param {T[]} items @param {(item: T) => V} key */
function distinct(items, key) {
  return [...new Set(items.map(key))];
}

/** Items by the value of `key`. @template T @param {T[]} items @param {(item: T) => string} key */
function groupBy(items, key) {
  /** @type {Map<string, T[]>} */
  const groups = new Map();
  for (const item of items) {
    const name = key(item);
    const group = groups.get(name);
    if (group) group.push(item);
    else groups.set(name, [item]);
  }
  return groups;
}

/** Compares "R=96" with "R=128" by their numbers. @param {string} a @param {string} b */
function bySize(a, b) {
  return a.localeCompare(b, "en", { numeric: true });
}
