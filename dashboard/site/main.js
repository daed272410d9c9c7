const data = readData();
const form = /** @type {HTMLFormElement} */ (document.getElementById("choices"));
/** @type {Map<string, Cell>} */
const cellsOnPage = new Map();
const details = new Details(/** @type {HTMLElement} */ (document.getElementById("details")), cellsOnPage, data);

/** @param {string} id */
const byId = (id) => /** @type {HTMLElement} */ (document.getElementById(id));

/** Draws the page for `wanted`; what does not exist is replaced and named. @param {Partial<Choices>} wanted */
function draw(wanted) {
  const { chosen, missing } = settle(data, wanted);
  details.close(false);
  fillForm(form, data, chosen);
  document.documentElement.dataset.theme = chosen.theme;
  byId("notice").textContent = missing.length ? `Not in these results: ${missing.join(", ")}. Showing what is.` : "";
  const { view, commit } = options(data, chosen);
  if (view && commit) drawCommit(view, commit, chosen);
  return chosen;
}

/** @param {View} view @param {Commit} commit @param {Choices} chosen */
function drawCommit(view, commit, chosen) {
  cellsOnPage.clear();
  const all = cellsOf(data, commit);
  const cells = all.filter((cell) => cell.direction === chosen.direction && cell.dtype === chosen.dtype);
  const timed = cells.filter((cell) => cell.seconds !== null).length;
  byId("measured").replaceChildren(...measured(view, commit), ` ${timed} of ${cells.length} cells shown here have a time.`);
  const operations = [...groupBy(cells, (cell) => JSON.stringify([cell.operation, cell.level])).values()].sort(
    ([a], [b]) => order(a) - order(b));
  byId("glance").replaceChildren(...operations.map(([first]) => glance(first, verdictOf(commit, first), chosen)));
  byId("operations").replaceChildren(...operations.map((own) => operationSection(view, own, verdictOf(commit, own[0]), chosen)));
  byId("legend").replaceChildren(...(chosen.as === "charts" ? chartLegend() : legend(chosen.show)));
}

/** The order of the supplement; cores before modules, stacks last. @param {Cell} cell */
function order(cell) {
  const at = Object.keys(data.operations).indexOf(cell.operation);
  return (at < 0 ? 99 : at) + Math.max(["core", "module", "stack"].indexOf(cell.level), 0) * 100;
}

/** @param {View} view @param {Commit} commit @returns {(Node | string)[]} */
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

/** @param {Cell} cell */
function titleOf(cell) {
  const title = data.operations[cell.operation]?.title ?? cell.operation;
  return cell.level === "module" ? `${title}, whole module` : title;
}

/** The verdict on the operation, dtype and direction of `cell`. @param {Commit} commit @param {Cell} cell @returns {Verdict} */
function verdictOf(commit, cell) {
  const about = /** @type {const} */ (["operation", "level", "dtype", "direction"]);
  return /** @type {Verdict} */ (commit.verdicts.find((verdict) => about.every((name) => verdict[name] === cell[name])));
}

/** One operation's answer on a card. @param {Cell} cell @param {Verdict} verdict @param {Choices} chosen */
function glance(cell, { answer, use, at, speedup, memory, sentences }, chosen) {
  const facts = make("p", { class: "facts" });
  if (use.length && speedup !== null) {
    facts.append(make("b", {}, ratio(speedup)), " as fast as eager");
    if (memory !== null) facts.append(", ", make("b", {}, memory >= 1.5 ? `1/${Math.round(memory)}` : percent(1 / memory)), " of its memory");
    facts.append(make("span", { class: "quiet" }, ` at ${at.replaceAll("=", " ")}`));
  } else facts.append(shorten(sentences[0], 160));
  const link = make("a", { class: "glance", href: toAddress(chosen) },
    make("span", { class: "title" }, titleOf(cell)),
    make("p", { class: "use" }, shorten(answer, 60)), facts);
  link.addEventListener("click", (event) => {
    event.preventDefault();
    byId(sectionId(cell)).scrollIntoView();
    byId(`${sectionId(cell)}-title`).focus({ preventScroll: true });
  });
  return link;
}

/** @param {Cell} cell */
function sectionId(cell) {
  return `operation-${cell.operation}-${cell.level}`.replace(/[^a-z0-9_]+/gi, "-");
}

/** @param {View} view @param {Cell[]} cells @param {Verdict} found @param {Choices} chosen */
function operationSection(view, cells, found, chosen) {
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
      chosen.as === "charts" ? seriesCharts(series, show) : [seriesTable(data, series, show, register)])),
    ...(chosen.as === "charts" ? [commitsChart(view, cells, found, show)] : []));
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

document.addEventListener("change", (event) => {
  const wanted = fromForm(form);
  if (event.target instanceof HTMLSelectElement && event.target.name === "place") delete wanted.commit;
  history.pushState(null, "", toAddress(draw(wanted)));
});
form.addEventListener("submit", (event) => event.preventDefault());
addEventListener("popstate", () => draw(fromAddress()));
byId("skip").addEventListener("click", (event) => {
  event.preventDefault();
  byId("glance-title").focus();
});
document.addEventListener("keydown", moveBetweenCells);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw(fromForm(form)));
draw(fromAddress());
