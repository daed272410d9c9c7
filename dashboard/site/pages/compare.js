/**
 * The file of dashboard/pages/compare.py, which says what it holds.
 * @typedef {{commit: string, subject: string, backend: string, torch: string}} PairedSide
 * @typedef {{cell: string, name: string, verdict: string, changes: string[], ratio: number | null, low: number | null, high: number | null, detectable: number | null, pairs: number}} PairedOutcome
 * @typedef {{file: string, machine: string, base: PairedSide, head: PairedSide, summary: string, environment: string[], outcomes: PairedOutcome[]}} PairedComparison
 * @typedef {{anchors: (Record<string, number> | null)[][], recorded: PairedComparison[], unread: string[], chart: any}} CompareFile
 * One cell at both commits. `ratio` is head's time over base's, `low` to `high` what both intervals leave room for, `clarity`
 * the distance from 1 over that from the end nearer to 1 (above 1 the intervals of base and head do not overlap); null if one of both has no time.
 * @typedef {{base: Cell, head: Cell, ratio: number | null, low: number | null, high: number | null, clarity: number | null, changes: string[], paired: PairedOutcome | null}} ComparedCell
 * What is compared: two commits, each of a view.
 * @typedef {{baseView: View, base: Commit, head: Commit}} ComparedSides
 */

const SAME_PLACE = "same";

addPage("compare", {
  title: "Compare commits",
  about: "Every cell (a backend on a problem, in one direction) at two commits, or at one commit in two environments. Base is what stood before, head (the commit chosen above) what is held against it. Memory, error and kernels need no statistics. Times were measured at different times: a difference here is a hint, and only a comparison in pairs tells code from circumstance.",
  uses: ["place", "commit"],
  choices: {
    in: { legend: "Base measured in", as: "select", values: ({ view }) => basePlaces(view) },
    base: { legend: "Base", as: "select", follows: true, values: (shown) => baseCommits(shown) },
    operation: { legend: "Operation", as: "select", values: ({ cells }) => ({ all: "all", ...Object.fromEntries(operationsOf(cells).map(([cell]) => [`${cell.operation} ${cell.level}`, titleOf(cell)])) }) },
    backend: { legend: "Backend", as: "select", values: ({ cells }) => ({ all: "all", ...plainLabels(distinct(cells, (cell) => cell.backend).sort()) }) },
    sort: { legend: "", values: null },
    filter: { legend: "", values: null },
  },
  draw: drawCompare,
});

/** Where base may have been measured: first where head was. @param {View} view @returns {Record<string, string>} */
function basePlaces(view) {
  const others = data.views.filter((other) => other !== view);
  return { [SAME_PLACE]: "the same environment", ...Object.fromEntries(others.map((other) => [placeOf(other),
    `${shorten(other.machine, 40)}, ${shorten(other.env, 60)}, ${other.threads ?? "?"} threads`])) };
}

/** @param {Shown} shown @returns {View} */
function baseView({ view, chosen }) {
  return data.views.find((other) => placeOf(other) === chosen.in) ?? view;
}

/** What base may be, the most telling first: a commit before head, or head itself in another environment. @param {Shown} shown */
function baseCommits(shown) {
  const { view, commit } = shown;
  const other = baseView(shown);
  const older = other === view ? view.commits.slice(view.commits.indexOf(commit) + 1) : other.commits;
  const ordered = older.toSorted((a, b) => Number(b.hash === commit.hash) - Number(a.hash === commit.hash));
  return Object.fromEntries(ordered.map((one) => [commitId(one), `${commitId(one)}  ${one.date.slice(0, 10)}  ${shorten(one.subject, 60)}`]));
}

/** @param {Shown} shown @returns {Promise<Drawn>} */
async function drawCompare(shown) {
  const { commit: head, chosen } = shown;
  const other = baseView(shown);
  const base = other.commits.find((one) => commitId(one) === chosen.base);
  const file = /** @type {CompareFile} */ (await load("compare"));
  if (!base) return [make("p", {}, "There is no commit before this one: nothing to hold it against. Choose a later head, or another environment."), ...recordedComparisons(file)];
  await loadCommit(base);
  const sides = { baseView: other, base, head };
  const paired = pairedOf(file, sides, shown.view);
  const all = comparedCells(sides, paired);
  const cells = all.filter(({ head: { operation, level, backend } }) =>
    [chosen.operation, "all"].includes(chosen.operation === "all" ? "all" : `${operation} ${level}`) && [backend, "all"].includes(chosen.backend));
  return [
    ...comparedWords(shown, sides, cells, file),
    ...(hasCharts() ? ratioChart(cells, file.chart) : []),
    comparedTable(cells, chosen),
    ...recordedComparisons(file),
  ];
}

/** Cells that stand in both commits, each measurement once. @param {ComparedSides} sides @param {Map<string, PairedOutcome>} paired @returns {ComparedCell[]} */
function comparedCells({ base, head }, paired) {
  const ofBase = new Map(cellsOf(data, base).map((cell, at) => [base.cells?.place[at], cell]));
  const both = new Map(cellsOf(data, head).flatMap((cell, at) => {
    const before = ofBase.get(head.cells?.place[at]);
    return before ? [[cell, before]] : [];
  }));
  return onceEach([...both.keys()]).map((cell) => {
    const before = /** @type {Cell} */ (both.get(cell));
    return { base: before, head: cell, ...ratioOf(before, cell), changes: exactChanges(before, cell), paired: paired.get(pairedKey(cell)) ?? null };
  });
}

/** Head's time over base's, with what both intervals leave room for. @param {Cell} base @param {Cell} head */
function ratioOf(base, head) {
  if (base.status !== "ok" || head.status !== "ok" || !base.seconds || !head.seconds) return { ratio: null, low: null, high: null, clarity: null };
  const [ratio, low, high] = [head.seconds / base.seconds, head.seconds_low / base.seconds_high, head.seconds_high / base.seconds_low];
  const towardsOne = ratio > 1 ? ratio / low : high / ratio;
  return { ratio, low, high, clarity: Math.abs(Math.log(ratio)) / Math.max(Math.log(towardsOne), 1e-6) };
}

/** What changed without statistics, in words. @param {Cell} base @param {Cell} head */
function exactChanges(base, head) {
  const leading = (/** @type {Cell} */ one, /** @type {Cell} */ other) => one.kernels.slice(0, 3).filter((kernel) => !other.kernels.includes(kernel));
  const known = base.kernels.length > 0 && head.kernels.length > 0;
  return [
    base.status !== head.status ? `${words(base.status)} became ${words(head.status)}${head.reason ? `: ${head.reason}` : ""}` : "",
    base.bytes && head.bytes && base.bytes !== head.bytes ? bytesChanged(base.bytes, head.bytes) : "",
    base.error !== null && head.error !== null && base.error !== head.error ? `error ${percent(base.error)} became ${percent(head.error)} of its budget` : "",
    ...(known ? [...leading(base, head).map((kernel) => `no longer runs ${kernel}`), ...leading(head, base).map((kernel) => `now runs ${kernel}`)] : []),
  ].filter(Boolean);
}

/** Less than a thousandth is neither more nor less, as in dashboard/alarms.py; exact where both look alike. @param {number} before @param {number} after */
function bytesChanged(before, after) {
  const times = after / before;
  const kind = Math.abs(times - 1) < 0.001 ? "memory" : times > 1 ? "more memory" : "less memory";
  const [one, other] = [si(before, "B"), si(after, "B")];
  return one === other ? `${kind}: ${before.toLocaleString("en")} became ${after.toLocaleString("en")} bytes` : `${kind}: ${one} became ${other} (${ratio(times)})`;
}

/** How a recorded comparison names a cell. @param {Cell} cell */
function pairedKey(cell) {
  const axes = /** @type {const} */ (["S", "R", "T", "N_head", "c", "blocks"]);
  return [cell.operation, cell.level, ...axes.filter((axis) => cell[axis] !== null).map((axis) => `${axis}=${cell[axis]}`), cell.dtype, cell.backend, cell.direction].join(" ");
}

/** The outcomes of the comparison that was recorded of these two sides, by cell. @param {CompareFile} file @param {ComparedSides} sides @param {View} headView */
function pairedOf({ recorded }, { baseView: other, base, head }, headView) {
  const fits = (/** @type {PairedSide} */ side, /** @type {Commit} */ commit, /** @type {View} */ view) =>
    !commit.dirty && side.commit === commit.hash && !side.backend && (other === headView || side.torch === view.torch);
  const found = recorded.find((one) => fits(one.base, base, other) && fits(one.head, head, headView));
  return new Map(found?.outcomes.map((outcome) => [outcome.cell, outcome]));
}

/** The verdict in words, what the environment did, and the command that settles it. @param {Shown} shown @param {ComparedSides} sides @param {ComparedCell[]} cells @param {CompareFile} file @returns {Drawn} */
function comparedWords({ view, commit }, { baseView: other, base, head }, cells, file) {
  const timed = cells.filter(({ ratio }) => ratio !== null);
  const clear = timed.filter(({ clarity }) => Number(clarity) > 1);
  const slower = clear.filter(({ ratio }) => Number(ratio) > 1).length;
  const exact = cells.filter(({ changes }) => changes.length > 0).length;
  const name = (/** @type {View} */ of, /** @type {Commit} */ one) => `${commitId(one)}${other === view ? "" : ` with torch ${of.torch || "?"} on ${shorten(of.machine, 40)}`}`;
  const paired = cells.filter((cell) => cell.paired).length;
  return [
    make("div", { class: "verdict" },
      make("p", {}, make("strong", {}, timed.length === 0 ? "No cell was timed at both." :
        `Of ${timed.length} cells timed at both, ${slower} look slower and ${clear.length - slower} faster at head; of the other ${timed.length - clear.length} the intervals overlap.`)),
      make("p", {}, `${exact} of ${cells.length} cells changed in memory, error, kernels or status.`),
      make("p", {}, "Base: ", make("code", {}, name(other, base)), " ", make("q", { dir: "auto" }, shorten(base.subject, 120)), ". Head: ",
        make("code", {}, name(view, commit)), " ", make("q", { dir: "auto" }, shorten(head.subject, 120)), ".")),
    make("p", { class: "warning" }, make("b", {}, "Unpaired: measured at different times. "), anchorWords(file, view, head, other, base),
      ...(paired ? [` Of ${paired} cells a comparison in pairs was recorded: its verdict stands beside them.`] : [])),
    make("p", {}, "To measure the two in pairs, and be sure: ", make("code", {}, compareCommand(view, head, other, base)),
      other === view ? "" : " (with each environment’s own Python)"),
  ];
}

/** @param {View} view @param {Commit} head @param {View} other @param {Commit} base */
function compareCommand(view, head, other, base) {
  const name = (/** @type {Commit} */ commit) => /^[0-9a-f]+$/.test(commit.hash) ? commit.hash.slice(0, 8) : "COMMIT";
  const pythons = other.env === view.env ? "" : " --base-python FILE --head-python FILE";
  return `python -m benchmarks compare ${name(base)} ${name(head)}${pythons}`;
}

/** What calls that no commit can change took. @param {CompareFile} file @param {View} view @param {Commit} head @param {View} other @param {Commit} base */
function anchorWords({ anchors }, view, head, other, base) {
  const of = (/** @type {View} */ one, /** @type {Commit} */ commit) => anchors[data.views.indexOf(one)]?.[one.commits.indexOf(commit)] ?? {};
  const [before, after] = [of(other, base), of(view, head)];
  const both = Object.keys(after).filter((name) => before[name] && after[name]);
  if (both.length === 0) return "No anchors (calls that no commit can change) are known of both: whether the machine changed cannot be told.";
  return `Calls that no commit can change took ${both.map((name) => `${ratio(after[name] / before[name])} (${name})`).join(", ")} of their time at base: so much the machine itself differed.`;
}

/** @param {ComparedCell[]} cells @param {any} specification @returns {HTMLElement[]} */
function ratioChart(cells, specification) {
  const timed = cells.filter(({ ratio }) => ratio !== null);
  if (timed.length === 0) return [];
  const groups = groupBy(timed, ({ head }) => rowOfOperation(head));
  const values = [...groups].flatMap(([operation, own]) => own.map(({ head, ratio: times, low, high, clarity }, at) => ({
    operation, backend: head.backend, ratio: times, low, high, clear: Number(clarity) > 1, offset: (at + 0.5) / own.length,
    text: `${nameOfCell(head)}: ${ratio(Number(times))} (${ratio(Number(low))} to ${ratio(Number(high))})`,
  })));
  const spec = structuredClone(specification);
  roomForRows(spec);
  return [chart(spec, values, [make("b", {}, "Time at head over time at base. "),
    "A point a cell; bars: what both intervals leave room for; faint where that includes 1."], innerWidth < 720 ? 380 : Math.min(760, innerWidth - 480))];
}

/** As dashboard/alarms.py names it. @param {Cell} cell */
function nameOfCell(cell) {
  return [cell.operation, cell.level === "module" ? "module" : "", cell.series, cell.size, cell.dtype, shorten(cell.backend, 40), cell.direction].filter(Boolean).join(" ");
}

/** @param {ComparedCell[]} cells @param {Choices} chosen */
function comparedTable(cells, chosen) {
  const rows = cells.toSorted((a, b) => inOrder(a.clarity, b.clarity, -1));
  const paired = rows.some((row) => row.paired);
  /** @type {Column<ComparedCell>[]} */
  const columns = [
    { name: "cell", title: "cell", value: ({ head }) => nameOfCell(head), show: ({ head }) => make("a", { href: leadToHistory(chosen, head) }, nameOfCell(head)) },
    { name: "base", title: "base, s", value: ({ base }) => base.seconds, show: ({ base }) => base.seconds === null ? words(base.status) : si(base.seconds, "s") },
    { name: "head", title: "head, s", value: ({ head }) => head.seconds, show: ({ head }) => head.seconds === null ? words(head.status) : si(head.seconds, "s") },
    { name: "ratio", title: "head / base", value: (row) => row.ratio, show: (row) => row.ratio === null ? "" : ratio(row.ratio) },
    { name: "interval", title: "interval", value: ({ low, high }) => low === null || high === null ? "" : `${ratio(low)} to ${ratio(high)}` },
    { name: "clarity", title: "clarity", value: ({ clarity }) => clarity, show: ({ clarity, ratio }) => clarity === null ? "" : `${plain(clarity)}${clarity > 1 ? Number(ratio) > 1 ? " slower" : " faster" : ""}` },
    ...(paired ? [/** @type {Column<ComparedCell>} */ ({ name: "paired", title: "in pairs", value: (row) => row.paired ? pairedWords(row.paired) : "" })] : []),
    { name: "changes", title: "memory, error, kernels, status", value: ({ changes }) => changes.join("; "), show: ({ changes }) => shorten(changes.join("; "), 300) },
  ];
  return make("div", {},
    dataTable({ caption: "Every cell, the clearest difference first (unpaired)", file: "compare", columns, rows, chosen }),
    make("p", { class: "quiet" }, "Clarity: how far the ratio lies from 1, over how far it lies from that end of its interval which is nearer to 1. Above 1 the intervals of base and head do not overlap."));
}

/** @param {PairedOutcome} outcome */
function pairedWords({ verdict, ratio: times, low, high, detectable, pairs }) {
  if (times === null || low === null || high === null) return "not compared";
  return `${verdict}: ${ratio(times)} (${ratio(low)} to ${ratio(high)}), ${pairs} pairs${detectable === null ? "" : `, could see ${percent(detectable)}`}`;
}

/** Every comparison in pairs that was recorded. @param {CompareFile} file @returns {HTMLElement[]} */
function recordedComparisons({ recorded, unread }) {
  const name = (/** @type {PairedSide} */ side) => `${/^[0-9a-f]{40}$/.test(side.commit) ? side.commit.slice(0, 8) : shorten(side.commit, 40)}${side.backend ? ` ${shorten(side.backend, 40)}` : ""}${side.torch ? `, torch ${shorten(side.torch, 40)}` : ""}`;
  return [make("section", { "aria-label": "Recorded comparisons in pairs" }, make("h3", {}, "Recorded comparisons in pairs"),
    ...(recorded.length || unread.length ? [] : [make("p", {}, "None is recorded. ", make("code", {}, "python -m benchmarks compare BASE HEAD"), " writes one.")]),
    ...recorded.map(({ machine, base, head, summary, environment, outcomes }) => make("details", { class: "event" },
      make("summary", {}, make("code", {}, name(head)), " against ", make("code", {}, name(base)), make("span", { class: "quiet", dir: "auto" }, ` ${shorten(machine, 40)}: ${shorten(summary, 200)}`)),
      ...environment.map((words) => make("p", { class: "warning", dir: "auto" }, shorten(words, 300))),
      make("div", { class: "scroll" }, make("table", {}, make("thead", {}, make("tr", {}, ...["cell", "verdict", "besides the time"].map((title) => make("th", { scope: "col" }, title)))),
        make("tbody", {}, ...outcomes.map((outcome) => make("tr", {}, make("th", { scope: "row", dir: "auto" }, shorten(outcome.name, 120)),
          make("td", {}, pairedWords(outcome)), make("td", { dir: "auto" }, shorten(outcome.changes.join("; "), 300))))))))),
    ...unread.map((words) => make("p", { class: "warning", dir: "auto" }, shorten(words, 300))))];
}
