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
    byId("glance").replaceChildren(...operations.map(([first]) => glance(first, verdictOf(commit, first))));
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

/** One operation's answer on a card. @param {Cell} cell @param {Verdict} verdict */
function glance(cell, { answer, use, at, speedup, memory, sentences }) {
  const facts = make("p", { class: "facts" });
  if (use.length && speedup !== null) {
    facts.append(make("b", {}, ratio(speedup)), " as fast as eager");
    if (memory !== null) facts.append(...memoryFact(memory));
    facts.append(make("span", { class: "quiet" }, ` at ${at.replaceAll("=", " ")}`));
  } else facts.append(shorten(sentences[0], 160));
  const link = make("a", { class: "glance", href: `#${sectionId(cell)}` },
    make("span", { class: "title" }, titleOf(cell)),
    make("p", { class: "use" }, shorten(answer, 60)), facts);
  link.addEventListener("click", (event) => {
    event.preventDefault();
    byId(sectionId(cell)).scrollIntoView();
    byId(`${sectionId(cell)}-title`).focus({ preventScroll: true });
  });
  return link;
}

/** How much of eager's memory: "1/3 of" where that is so to a twentieth. @param {number} less how many times less @returns {Drawn} */
function memoryFact(less) {
  const whole = Math.round(less);
  if (less < 0.995) return [", but ", make("b", {}, ratio(1 / less)), " its memory"];
  return [", ", make("b", {}, whole > 1 && Math.abs(less / whole - 1) <= 0.05 ? `1/${whole}` : percent(1 / less)), " of its memory"];
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
    const name = String(cellsOnPage.size);
    cellsOnPage.set(name, cell);
    return name;
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
