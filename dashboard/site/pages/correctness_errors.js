/**
 * An error in units of its budget: 1 is all that is allowed, Infinity an error that is not finite. `tensor` is "" where
 * only the worst is known.
 * @typedef {{cell: Cell, tensor: string, share: number}} Judged
 */

const WORST = "worst";
const TENSOR_ORDER = ["o", "dq", "dk", "dv", "dbias", "dx", "dz"];

/** The cells whose errors the chosen level, direction and dtype show. @param {Shown} shown */
function judgedCells({ cells, chosen }) {
  return cells.filter((cell) => cell.level === chosen.level && cell.direction === chosen.direction && cell.dtype === chosen.dtype);
}

/** @param {Cell[]} cells @returns {Record<string, string>} */
function tensorsOf(cells) {
  const names = [...new Set(cells.flatMap((cell) => cell.errors.map(([name]) => name)))]
    .sort((a, b) => TENSOR_ORDER.indexOf(a) - TENSOR_ORDER.indexOf(b));
  return { [WORST]: "the worst tensor", ...Object.fromEntries(names.map((name) => [name, shorten(name, 20)])) };
}

/** The error of one tensor, or of the worst; none if it is not known. @param {Cell} cell @param {string} tensor @returns {Judged[]} */
function judged(cell, tensor) {
  const known = cell.errors.filter(([name, , budget]) => budget !== null && (tensor === WORST || tensor === name))
    .map(([name, error, budget]) => ({ cell, tensor: name, share: error === null ? Infinity : error === 0 ? 0 : error / Number(budget) }));
  if (known.length === 0 && tensor === WORST && cell.error !== null) return [{ cell, tensor: "", share: cell.error }];
  return worstOf(known);
}

/** The one largest error. @param {Judged[]} all */
function worstOf(all) {
  return all.length ? [all.reduce((worst, other) => other.share > worst.share ? other : worst)] : [];
}

/** "43 %", "3.1×": of what is allowed. @param {number} share */
function ofBudget(share) {
  if (share === Infinity) return "not finite";
  return share > 1 ? ratio(share) : percent(share);
}

/** @param {Judged} judged */
function whereOf({ cell, tensor }) {
  return [cell.backend, titleOf(cell), sizeHeading(cell.size), cell.dtype, cell.direction, tensor].map((part) => shorten(part, 60)).filter(Boolean).join(", ");
}

/** All answers with an error, each once, the worst tensor of each. @param {Cell[]} cells */
function allJudged(cells) {
  return onceEach(cells.filter((cell) => cell.level !== "stack")).flatMap((cell) => judged(cell, WORST));
}

/** The verdict on all that this commit computed. @param {Cell[]} cells */
function errorsInShort(cells) {
  const all = allJudged(cells);
  const wrong = all.filter(({ share }) => share > 1);
  if (all.length === 0) return "No error was recorded at this commit.";
  return wrong.length ? `${counted(wrong.length, "answer")} of ${all.length.toLocaleString("en")} ${wrong.length > 1 ? "are" : "is"} wrong.`
    : `All ${counted(all.length, "answer")} of this commit are right, in every number format and direction.`;
}

/** @param {Cell[]} cells @param {Choices} chosen */
function errorsInWords(cells, chosen) {
  const all = allJudged(cells);
  const wrong = [...groupBy(all.filter(({ share }) => share > 1), ({ cell }) => JSON.stringify([cell.backend, cell.operation, cell.level])).values()];
  if (wrong.length) {
    const told = wrong.slice(0, 4).flatMap((own) => worstOf(own).map((worst) =>
      `${whereOf(worst)} (${ofBudget(worst.share)}${own.length > 1 ? `; ${own.length} of its answers` : ""})`));
    return `Beyond what is allowed: ${told.join("; ")}${wrong.length > told.length ? "; and others" : ""}.`;
  }
  const [nearest] = worstOf(all);
  const [here] = worstOf(all.filter(({ cell }) => cell.direction === chosen.direction && cell.dtype === chosen.dtype));
  if (!nearest) return "The journal of a sweep holds them: make bench.";
  return `Nearest to what is allowed: ${whereOf(nearest)}, ${ofBudget(nearest.share)} of it.${here && here.cell !== nearest.cell
    ? ` In ${chosen.dtype}, ${chosen.direction}: ${whereOf(here)}, ${ofBudget(here.share)}.` : ""}`;
}

/** Backends down, operations across; of each the worst of all sizes, or why there is none. @param {Cell[]} cells @param {Choices} chosen @returns {Drawn} */
function errorTable(cells, chosen) {
  if (cells.length === 0) return [make("p", {}, "Nothing was measured here at this level, direction and number format.")];
  const operations = operationsOf(cells).map(([first]) => first);
  const rows = [...groupBy(cells, (cell) => cell.backend)].map(([backend, own]) => ({
    backend,
    entries: operations.map((operation) => entryOf(own.filter((cell) => cell.operation === operation.operation), chosen.tensor)),
  })).sort((a, b) => Number(isEmpty(a)) - Number(isEmpty(b)) || Number(b.backend === "eager") - Number(a.backend === "eager")
    || a.backend.localeCompare(b.backend));
  const shared = groupBy(rows, (row) => isEmpty(row) ? JSON.stringify(row.entries.map(({ why }) => keyOf(why))) : row.backend);
  const table = make("table", {},
    make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "Backend"), ...operations.map((cell) => make("th", { scope: "col" }, data.operations[cell.operation]?.title ?? shorten(cell.operation, 60))))),
    make("tbody", {}, ...[...shared.values()].map((alike) => make("tr", {},
      make("th", { scope: "row" }, ...alike.map(({ backend }, at) => make("bdi", {}, ...breakable(shorten(backend, 60)), at < alike.length - 1 ? ", " : ""))),
      ...operations.flatMap((_, at) => errorCells(alike, operations, at, chosen.tensor))))));
  table.querySelector("button.cell")?.setAttribute("tabindex", "0");
  const of = chosen.tensor === WORST ? "The worst tensor" : chosen.tensor;
  return [
    make("p", {}, "The largest difference from float64, over the largest that is allowed (the ", make("em", {}, "budget"),
      ": twice the error of plain eager attention, and a little for rounding). Above 100 % is wrong."),
    make("figure", { class: "series errors" },
      make("figcaption", {}, make("b", {}, `${shorten(of, 20)} of the worst size, ${chosen.dtype}, ${chosen.direction}`)),
      make("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": "Error by backend and operation" }, table)),
    make("div", { class: "legend" }, ...[["share", "nearer to the budget, the deeper"], ["beyond", "✗ beyond it: wrong"], ["empty", "no number, and why"]]
      .map(([kind, text]) => make("span", {}, make("i", { class: kind }), text)), make("span", {}, "Hover, focus or tap a cell for every tensor, and the command.")),
  ];
}

/**
 * The worst of one backend's cells of one operation, or a cell that says why there is none.
 * @typedef {{worst?: Judged, sizes: number, why?: Cell}} ErrorEntry
 * @typedef {{backend: string, entries: ErrorEntry[]}} ErrorRow
 * @param {Cell[]} own @param {string} tensor @returns {ErrorEntry}
 */
function entryOf(own, tensor) {
  const known = onceEach(own).flatMap((cell) => judged(cell, tensor));
  const [worst] = worstOf(known);
  if (worst) return { worst, sizes: known.length };
  const unable = own.filter((cell) => cell.status === "unsupported");
  const [why] = [...groupBy(unable.length ? unable : own, keyOf).values()].sort((a, b) => b.length - a.length)[0] ?? [];
  if (why && ["ok", "inaccurate"].includes(why.status)) {
    return { sizes: 0, why: { ...why, status: "no number", reason: tensor === WORST ? "no error was recorded" : `no ${tensor} in this operation` } };
  }
  return { sizes: 0, why };
}

/** @param {ErrorRow} row */
function isEmpty({ entries }) {
  return entries.every(({ worst }) => !worst);
}

/** Cells that are empty for the same reason have the same. @param {Cell | undefined} cell */
function keyOf(cell) {
  return cell ? `${cell.status}: ${cell.reason}` : "";
}

/** The table's cells that begin at operation `at`: one, or none if the one before says the same. @param {ErrorRow[]} alike rows that are drawn as one @param {Cell[]} operations @param {number} at @param {string} tensor */
function errorCells(alike, operations, at, tensor) {
  const [{ entries }] = alike;
  const { worst, sizes, why } = entries[at];
  if (worst) return [errorCell(worst, tensor === WORST, sizes, titleOf(operations[at]), registered(worst.cell))];
  const same = (/** @type {ErrorEntry | undefined} */ other) => other !== undefined && !other.worst && keyOf(other.why) === keyOf(why);
  if (same(entries[at - 1])) return [];
  let span = 1;
  while (same(entries[at + span])) span += 1;
  const whys = alike.flatMap((row) => row.entries.slice(at, at + span).flatMap((entry) => entry.why ?? []));
  return [emptyCell(whys, span, operations.slice(at, at + span).map(titleOf), alike.map(({ backend }) => backend).join(", "), registered)];
}

/** @param {Judged} worst @param {boolean} all whether it is the worst of all tensors @param {number} sizes @param {string} operation @param {string} name */
function errorCell({ cell, tensor, share }, all, sizes, operation, name) {
  const beyond = share > 1 || (all && cell.status === "inaccurate");
  const at = [sizeHeading(cell.size), all && cell.errors.length > 1 ? tensor : ""].filter(Boolean).join(", ");
  const td = make("td", { class: beyond ? "beyond" : "share", style: `--tint: ${Math.round(Math.min(share, 1) * 55)}%` });
  td.append(make("button", { class: "cell", type: "button", tabindex: "-1", "data-cell": name },
    make("span", { class: "visually-hidden" }, `${shorten(cell.backend, 60)}, ${operation}: ${beyond ? "wrong, " : ""}`),
    make("span", { class: "first" }, `${beyond ? "✗ " : ""}${ofBudget(share)}`),
    make("span", { class: "second", dir: "auto" }, `at ${shorten(at, 40)}`),
    make("span", { class: "second" }, sizes > 1 ? `worst of ${sizes} sizes` : "one size")));
  return td;
}
