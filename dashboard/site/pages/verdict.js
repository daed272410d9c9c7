/** @type {Map<string, Cell>} */
const cellsOnPage = new Map();
const details = new Details(byId("details"), cellsOnPage, data);

const SHOWS = { time: "time", speedup: "speed-up", memory: "memory", error: "error", all: "all" };
/** @type {Record<string, string>} */
const FORMS = hasCharts() ? { tables: "tables", charts: "charts" } : {};

addPage("verdict", {
  title: "Verdict",
  about: "",
  uses: ["place", "commit", "direction", "dtype"],
  choices: {
    show: { legend: "Show", values: () => SHOWS },
    as: { legend: "As", values: () => FORMS },
  },
  draw: ({ view, commit, cells: all, chosen }) => {
    details.close(false);
    cellsOnPage.clear();
    const cells = all.filter((cell) => cell.direction === chosen.direction && cell.dtype === chosen.dtype);
    const timed = cells.filter((cell) => cell.seconds !== null).length;
    byId("measured").replaceChildren(...measured(view, commit), ` ${timed} of ${cells.length} cells shown here have a time.`);
    const operations = operationsOf(cells);
    byId("glance").replaceChildren(...operations.map((own) => glance(own, commit, chosen)));
    byId("picture").replaceChildren(...overEager(operations, commit, chosen));
    byId("operations").replaceChildren(...operations.map((own) => operationSection(own, verdictOf(commit, own[0]), chosen)));
    byId("legend").replaceChildren(...(chosen.as === "charts" ? chartLegend() : legend(chosen.show)));
    return [];
  },
});

/** The verdict on the operation, dtype and direction of `cell`. @param {Commit} commit @param {Cell} cell @returns {Verdict} */
function verdictOf(commit, cell) {
  const about = /** @type {const} */ (["operation", "level", "dtype", "direction"]);
  return /** @type {Verdict} */ (commit.verdicts?.find((verdict) => about.every((name) => verdict[name] === cell[name])));
}

/** One operation's answer on a card; every number leads to its cell. @param {Cell[]} cells @param {Commit} commit @param {Choices} chosen */
function glance(cells, commit, chosen) {
  const found = verdictOf(commit, cells[0]);
  return make("article", { class: "glance" },
    make("h3", {}, make("a", { href: leadTo(chosen, { page: "verdict", at: sectionId(cells[0]) }) }, titleOf(cells[0]))),
    make("p", { class: "use" }, shorten(found.answer, 60)),
    ...(cells[0].level === "stack" ? driftFacts(cells, found, chosen) : found.use.length && found.cell !== null
      ? cellFacts(cellsOf(data, commit)[found.cell], found, chosen) : [make("p", { class: "facts" }, shorten(found.sentences[0], 160))]));
}

/** All backends beside eager, each operation at the size that its card names. @param {Cell[][]} operations @param {Commit} commit @param {Choices} chosen @returns {HTMLElement[]} */
function overEager(operations, commit, { direction, dtype }) {
  const values = operations.flatMap((cells) => {
    const { cell: at } = verdictOf(commit, cells[0]);
    if (at === null) return [];
    const best = cellsOf(data, commit)[at];
    const there = onceEach(cells).filter((cell) => cell.speedup !== null && cell.backend !== "eager" && cell.status === "ok"
      && measurementKey({ ...cell, backend: best.backend }) === measurementKey(best));
    return there.map((cell, n) => ({
      operation: rowOfOperation(cell), backend: cell.backend, ratio: cell.speedup, low: cell.speedup_low, high: cell.speedup_high,
      clear: cell.speedup_low > 1 || cell.speedup_high < 1, offset: (n + 0.5) / there.length,
      text: `${cell.backend}: ${ratio(Number(cell.speedup))} as fast as eager (${interval(cell)})`,
    }));
  });
  if (values.length === 0 || !hasCharts()) return [];
  const spec = structuredClone(data.charts.ratios["×"]);
  roomForRows(spec);
  return [chart(spec, values, [make("b", {}, "Times as fast as eager"),
    `, at the size that each card names, ${direction}, ${dtype}. A point a backend, and its interval; faint where that includes 1.`], innerWidth < 720 ? 380 : Math.min(760, innerWidth - 480))];
}

/** A number that leads to its cell on this page. @param {Choices} chosen @param {Cell} cell @param {string} show @param {string} text */
function numberLink(chosen, cell, show, text) {
  return make("a", { href: leadTo(chosen, { page: "verdict", show, at: cellId(cell) }) }, text);
}

/** How fast, by how much, how sure, how much memory, how exact. @param {Cell} cell @param {Verdict} found @param {Choices} chosen */
function cellFacts(cell, { speedup, memory, at, sentences }, chosen) {
  const link = (/** @type {string} */ show, /** @type {string} */ text) => numberLink(chosen, cell, show, text);
  return [
    make("p", { class: "facts" }, ...(speedup === null ? [shorten(sentences[0], 160)] : [
      make("b", {}, link("speedup", ratio(speedup))), " as fast as eager (", link("speedup", interval(cell)), ")",
      ...(memory === null ? [] : memoryFact(memory, (text) => link("memory", text)))])),
    make("p", { class: "facts quiet" }, ...(cell.seconds === null ? [] : [link("time", si(cell.seconds, "s")), ", "]),
      ...(cell.bytes === null ? [] : [link("memory", si(cell.bytes, "B")), ", "]),
      ...(cell.error === null ? [] : ["error ", link("error", percent(cell.error)), " of its budget, "]), `at ${at.replaceAll("=", SPACE)}`),
  ];
}

/** How far the deepest stack of each backend drifts. @param {Cell[]} cells @param {Verdict} found @param {Choices} chosen */
function driftFacts(cells, { at, sentences }, chosen) {
  const deepest = cells.filter((cell) => cell.size === at && cell.error !== null).sort((a, b) => Number(a.error) - Number(b.error));
  if (deepest.length === 0) return [make("p", { class: "facts" }, shorten(sentences[0], 160))];
  return [make("p", { class: "facts" }, `Drift from float64 after ${deepest[0].blocks} blocks, over eager’s: `, ...deepest.flatMap((cell, n) =>
    [n ? ", " : "", make("bdi", {}, shorten(cell.backend, 40)), " ", numberLink(chosen, cell, "error", ratio(Number(cell.error)))]))];
}

/**
 * How much of eager's memory: "1/3 of" where that is so to a twentieth.
 * @param {number} less how many times less @param {(text: string) => Node} link @returns {Drawn}
 */
function memoryFact(less, link) {
  const whole = Math.round(less);
  if (less < 0.995) return [", but ", make("b", {}, link(ratio(1 / less))), " its memory"];
  return [", ", make("b", {}, link(whole > 1 && Math.abs(less / whole - 1) <= 0.05 ? `1/${whole}` : percent(1 / less))), " of its memory"];
}

/** @param {Cell} cell */
function sectionId(cell) {
  return `operation-${cell.operation}-${cell.level}`.replace(/[^a-z0-9_]+/gi, "-");
}

/** @param {Cell[]} cells @param {Verdict} found @param {Choices} chosen */
function operationSection(cells, found, chosen) {
  const id = sectionId(cells[0]);
  const show = cells[0].level === "stack" ? "drift" : chosen.show;
  const operation = data.operations[cells[0].operation];
  const verdict = make("div", { class: "verdict" });
  const [first, ...rest] = found.sentences;
  verdict.append(
    make("p", {}, make("strong", {}, found.use.length ? `Use ${found.answer}. ` : `${found.answer[0].toUpperCase()}${found.answer.slice(1)}. `), first),
    ...(rest.length ? [make("ul", {}, ...rest.map((sentence) => make("li", {}, sentence)))] : []));
  const register = (/** @type {Cell} */ cell) => {
    cellsOnPage.set(cellId(cell), cell);
    return cellId(cell);
  };
  return make("section", { class: "operation", id, "aria-labelledby": `${id}-title` },
    make("h2", { id: `${id}-title`, tabindex: "-1" }, titleOf(cells[0]), make("small", {}, operation?.algorithm ?? "")),
    make("p", { class: "quiet" }, operation?.words ?? ""),
    verdict,
    make("div", { class: "tables" }, ...[...groupBy(cells, (cell) => `${cell.module} ${cell.series}`).values()].flatMap((series) =>
      chosen.as === "charts" ? seriesCharts(series, show) : [seriesTable(data, series, show, register)])));
}

/** @param {string} show @returns {HTMLElement[]} */
function legend(show) {
  const [better, worse, top] = show === "memory" ? ["less memory than eager", "more", "least memory of its column"]
    : ["faster than eager", "slower", "fastest of its column"];
  const entries = [["faster", better], ["slower", worse], ["top", `★ ${top}`]];
  const used = show === "error" ? [] : entries;
  return [
    ...[...used, ["empty", "no number, and why"]].map(([kind, text]) => make("span", {}, make("i", { class: kind }), text)),
    ...(show === "memory" || show === "error" ? [] : [make("span", {}, "≈ level: its interval reaches into the fastest’s")]),
    make("span", {}, "~ disturbed by other work"),
    make("span", {}, "Hover, focus or tap a cell for its spread, kernels and command."),
  ];
}

document.addEventListener("keydown", moveBetweenCells);
