const data = readData();

/** @param {string} id */
const byId = (id) => /** @type {HTMLElement} */ (document.getElementById(id));

/** Cells by operation and level, in the order of AlphaFold's supplement: cores, then modules, then stacks. @param {Cell[]} cells */
function operationsOf(cells) {
  return [...groupBy(cells, (cell) => JSON.stringify([cell.operation, cell.level])).values()].sort(([a], [b]) => rankOf(a) - rankOf(b));
}

/** @param {Cell} cell */
function rankOf(cell) {
  const at = Object.keys(data.operations).indexOf(cell.operation);
  return (at < 0 ? 99 : at) + Math.max(["core", "module", "stack"].indexOf(cell.level), 0) * 100;
}

/** @param {Cell} cell */
function titleOf(cell) {
  const title = data.operations[cell.operation]?.title ?? cell.operation;
  return cell.level === "module" ? `${title}, whole module` : title;
}

/** Where and of what was measured. @param {View} view @param {Commit} commit @returns {Drawn} */
function measured(view, commit) {
  const place = [view.device_name || view.device, view.threads === null ? "" : `${view.threads} threads`,
    view.torch && `torch ${view.torch}`, view.python && `Python ${view.python}`].filter(Boolean).join(", ");
  return [
    "Machine ", make("bdi", {}, shorten(view.machine, 80)), place ? ` (${shorten(place, 200)}). ` : ". ",
    "Commit ", make("code", {}, commitId(commit)), ", ", commit.date, commit.subject ? ": “" : "",
    make("bdi", {}, shorten(commit.subject, 160)), commit.subject ? "”." : ".",
    commit.dirty ? " Measured with uncommitted changes: these numbers belong to no commit." : "",
  ];
}

/** What was measured, in whatever series it stands; dtype and direction go unsaid. @param {Cell} cell */
function measurementKey(cell) {
  const axes = /** @type {const} */ (["S", "R", "T", "N_head", "c", "B", "blocks"]);
  return [cell.module, cell.operation, cell.level, ...axes.flatMap((axis) => cell[axis] === null ? [] : [`${axis}=${cell[axis]}`]),
    cell.mask === "none" ? "" : cell.mask, cell.backend].filter(Boolean).join(" ");
}

/**
 * Each measurement once: what stands in several series, as their common centre does, is measured once and recorded in each.
 * @param {Cell[]} cells
 */
function onceEach(cells) {
  return [...groupBy(cells, (cell) => JSON.stringify([measurementKey(cell), cell.dtype, cell.direction])).values()].map(([first]) => first);
}

/** What a cell is called on the first page. @param {Cell} cell */
function cellId(cell) {
  return ["cell", cell.module, cell.series, cell.operation, cell.level, cell.size, cell.backend].join("-").replace(/\s+/g, "");
}

/** Where the history of a cell stands. @param {Partial<Choices>} chosen @param {Cell} cell @param {string} quantity */
function leadToHistory(chosen, cell, quantity = "time") {
  return leadTo(chosen, { page: "history", direction: cell.direction, dtype: cell.dtype, quantity,
    operation: `${cell.operation} ${cell.level}`, cell: `${cell.module} ${cell.series} ${cell.size}` });
}

/** Where the samples of a cell stand. @param {Partial<Choices>} chosen @param {Cell} cell */
function leadToTrust(chosen, cell) {
  return leadTo(chosen, { page: "trust", direction: cell.direction, dtype: cell.dtype, cell: measurementKey(cell), at: "trust-cell" });
}
