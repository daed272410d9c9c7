/**
 * The files of dashboard/pages/history.py, which says what they hold.
 * @typedef {{view: number, operation: string, level: string, dtype: string, direction: string, file: string}} HistoryGroup
 * @typedef {{groups: HistoryGroup[], versions: [number, string | null][][], environment: [number, string][][], commit_url: string, charts: Record<string, any>}} HistoryIndex
 * @typedef {{places: number[], seconds: (number | null)[][], low: (number | null)[][], high: (number | null)[][], bytes: [number, number | null][][], error: [number, number | null][][], status: [number, number | null][][], reason: [number, number | null][][], reasons: string[], marks: [number, number, string, string, string][]}} HistoryFile
 * One backend of the chosen cell; a list has a place for each commit, newest first.
 * @typedef {{backend: string, value: (number | null)[], low: (number | null)[], high: (number | null)[], status: (string | null)[], reason: (string | null)[], changes: CellChange[]}} HistoryLine
 * @typedef {{at: number, kind: string, tier: string, words: string}} CellChange
 * What the page shows of one commit: `at` is its position, newest first.
 * @typedef {{at: number, commit: Commit, said: string[]}} HistoryRow
 */

const HISTORY_QUANTITIES = {
  time: { unit: "s", noun: "time", say: (/** @type {number} */ value) => si(value, "s"), kinds: ["slower", "faster"] },
  memory: { unit: "B", noun: "memory", say: (/** @type {number} */ value) => si(value, "B"), kinds: ["more memory", "less memory", "memory"] },
  error: { unit: "share", noun: "error", say: percent, kinds: ["less accurate"] },
};
/** Letters of what happened beside the numbers. @type {Record<string, string>} */
const EVENT_LETTERS = { environment: "E", versions: "V", kernel: "K", failed: "S", works: "S", status: "S", new: "N", gone: "N" };
const DOTS_UP_TO = 60; // more commits are lines alone
const TOLD_AT_MOST = 8;
const REASONS_AT_MOST = 20;

addPage("history", {
  title: "History",
  about: "One problem, backend by backend, over the commits that were measured: when did it become slower or faster, need more memory, or lose accuracy? A change is confirmed when two detectors find it with four commits on either side, and suspect when only one does.",
  uses: ["place", "direction", "dtype"],
  choices: {
    operation: { legend: "Operation", as: "select", values: historyOperations },
    cell: { legend: "Series and size", as: "select", values: historyCells },
    quantity: { legend: "Quantity", values: () => ({ time: "time", memory: "memory", error: "error" }) },
    order: { legend: "Along", values: () => ({ commit: "commits", date: "dates" }) },
    last: { legend: "Commits", as: "select", values: ({ view }) => historySpans(view.commits.length) },
    sort: { legend: "", values: null },
    filter: { legend: "", values: null },
  },
  draw: drawHistory,
});

/** The groups of the chosen view, dtype and direction. @param {Shown} shown @returns {Promise<HistoryGroup[]>} */
async function historyGroups({ view, chosen }) {
  const { groups } = /** @type {HistoryIndex} */ (await load("history"));
  const at = data.views.indexOf(view);
  return groups.filter((group) => group.view === at && group.dtype === chosen.dtype && group.direction === chosen.direction);
}

/** @param {HistoryGroup} group */
function historyOperation(group) {
  return `${group.operation} ${group.level}`;
}

/** @param {Shown} shown */
async function historyOperations(shown) {
  const groups = (await historyGroups(shown)).sort((a, b) => rankOf(/** @type {any} */ (a)) - rankOf(/** @type {any} */ (b)));
  return Object.fromEntries(groups.map((group) => [historyOperation(group), titleOf(/** @type {any} */ (group))]));
}

/** The chosen operation's file; null if there is none. @param {Shown} shown @returns {Promise<HistoryFile | null>} */
async function historyFile(shown) {
  const group = (await historyGroups(shown)).find((group) => historyOperation(group) === shown.chosen.operation);
  return group ? load(group.file) : null;
}

/** What a place says in one of its columns of text. @param {string} column @param {number} place */
function placeText(column, place) {
  return data.strings[data.places[column][place]];
}

/** The name of a place's series and size. @param {number} place */
function historyCell(place) {
  return `${placeText("module", place)} ${placeText("series", place)} ${placeText("size", place)}`;
}

/** The cells there are, the one first that most backends have numbers of. @param {Shown} shown */
async function historyCells(shown) {
  const { places, seconds } = (await historyFile(shown)) ?? { places: [], seconds: [] };
  const timed = groupBy(places.filter((_, line) => seconds[line].length > 0), historyCell);
  const most = Math.max(0, ...[...timed.values()].map((own) => own.length));
  const unlike = [...new Map(places.map((place) => [historyCell(place), place]))].sort(([a], [b]) => bySize(a, b));
  unlike.sort(([a], [b]) => Number(timed.get(b)?.length === most) - Number(timed.get(a)?.length === most));
  return Object.fromEntries(unlike.map(([name, place]) => [name,
    `${placeText("size", place) || "no size"} (${placeText("series", place)})`]));
}

/** How many commits can be shown; of a long history at first the newest, which takes a third of the time to draw. @param {number} commits @returns {Record<string, string>} */
function historySpans(commits) {
  const all = { all: `all ${commits}` };
  const [longest, ...shorter] = [300, 100, 30].filter((count) => count < commits)
    .map((count) => ({ [`last-${count}`]: `the last ${count}` }));
  return commits > 300 ? Object.assign({}, longest, all, ...shorter) : Object.assign({}, all, longest, ...shorter);
}

/** A list of [commit, value] as a value for every commit. @template T @param {[number, T][]} runs @param {number} length @returns {(T | null)[]} */
function spread(runs, length) {
  /** @type {(T | null)[]} */
  const values = Array(length).fill(null);
  for (const [n, [at, value]] of runs.entries()) values.fill(value, at, runs[n + 1]?.[0] ?? length);
  return values;
}

/** The chosen cell's lines. @param {HistoryFile} file @param {Shown} shown @returns {HistoryLine[]} */
function historyLines(file, { view, chosen }) {
  const length = view.commits.length;
  return file.places.flatMap((place, at) => {
    if (historyCell(place) !== chosen.cell) return [];
    const timed = chosen.quantity === "time";
    return [{
      backend: placeText("backend", place),
      value: timed ? file.seconds[at] : spread(chosen.quantity === "memory" ? file.bytes[at] : file.error[at], length),
      low: timed ? file.low[at] : [],
      high: timed ? file.high[at] : [],
      status: spread(file.status[at], length).map((text) => text === null ? null : data.strings[text]),
      reason: spread(file.reason[at], length).map((text) => text === null ? null : file.reasons[text]),
      changes: file.marks.filter(([line]) => line === at).map(([, at, kind, tier, words]) => ({ at, kind, tier, words })),
    }];
  }).sort((a, b) => inOrder(a.value[0] ?? null, b.value[0] ?? null, 1));
}

/** @param {Shown} shown @returns {Promise<Drawn>} */
async function drawHistory(shown) {
  const { view, chosen } = shown;
  const file = await historyFile(shown);
  if (!file) return [make("p", {}, "Nothing was measured here in this dtype and direction.")];
  const index = /** @type {HistoryIndex} */ (await load("history"));
  const quantity = /** @type {Record<string, typeof HISTORY_QUANTITIES.time>} */ (HISTORY_QUANTITIES)[chosen.quantity];
  const lines = historyLines(file, shown);
  const count = chosen.last === "all" ? view.commits.length : Number(chosen.last.replace("last-", ""));
  const beside = besideNumbers(index, data.views.indexOf(view));
  const rows = view.commits.slice(0, count).map((commit, at) => ({ at, commit, said: saidOf(lines, beside, at) }));
  return [
    ...historyVerdict(lines, beside, shown, quantity, count),
    ...(hasCharts() ? historyChart(lines, rows, beside, shown, index.charts[quantity.unit], quantity) : []),
    ...historyReasons(lines, rows),
    historyTable(lines, rows, shown, quantity, index.commit_url),
  ];
}

/** What happened at a commit to more than one cell: its words by kind. @param {HistoryIndex} index @param {number} view @returns {Map<number, [string, string][]>} */
function besideNumbers(index, view) {
  /** @type {Map<number, [string, string][]>} */
  const found = new Map();
  const add = (/** @type {number} */ at, /** @type {string} */ kind, /** @type {string} */ words) =>
    found.set(at, [...(found.get(at) ?? []), [kind, words]]);
  for (const [at, words] of index.environment[view]) add(at, "environment", `the environment moved: ${words}`);
  const runs = index.versions[view].filter(([, words]) => words !== null);
  for (const [n, [at, before]] of runs.slice(1).entries()) add(at - 1, "versions", `${before} became ${runs[n][1]}`);
  return found;
}

/** What happened at one commit, in words. @param {HistoryLine[]} lines @param {Map<number, [string, string][]>} beside @param {number} at */
function saidOf(lines, beside, at) {
  const ofCells = lines.flatMap(({ backend, changes }) => changes.filter((change) => change.at === at)
    .map((change) => `${shorten(backend, 40)} ${changeWords(change)}`));
  return [...(beside.get(at) ?? []).map(([, words]) => words), ...ofCells];
}

/** @param {CellChange} change */
function changeWords({ kind, tier, words }) {
  return `${kind}${tier === "suspect" ? " (suspect)" : ""}: ${shorten(words, 200)}`;
}

/**
 * What changed in the chosen quantity, in words. @param {HistoryLine[]} lines @param {Map<number, [string, string][]>} beside
 * @param {Shown} shown @param {typeof HISTORY_QUANTITIES.time} quantity @param {number} count @returns {Drawn}
 */
function historyVerdict(lines, beside, shown, { noun, kinds }, count) {
  const { view } = shown;
  if (count === 1) return [make("p", { class: "verdict" }, "One commit was measured: there is nothing to hold it against.")];
  const changes = lines.flatMap(({ backend, changes }) => changes.filter(({ at, kind }) => at < count && kinds.includes(kind))
    .map((change) => ({ ...change, backend })));
  const byCommit = [...groupBy(changes, ({ at }) => String(at)).values()].sort(([a], [b]) => a.at - b.at);
  const certain = byCommit.filter((changes) => changes.some(({ tier }) => tier === "confirmed")).length;
  const summary = changes.length === 0 ? `No change of ${noun} was found over ${count} commits.`
    : `Over ${count} commits the ${noun} changed at ${certain}` +
      (byCommit.length > certain ? `, and perhaps at ${byCommit.length - certain} more (suspect)` : "") + ". Newest first:";
  const moved = (/** @type {number} */ at) => (beside.get(at) ?? []).filter(([kind]) => kind === "environment").map(([, words]) => words);
  return [make("div", { class: "verdict" }, make("p", {}, make("strong", {}, summary)),
    make("ul", {}, ...byCommit.slice(0, TOLD_AT_MOST).map((changes) => make("li", {},
      commitLink(shown, changes[0].at), " ", make("q", { dir: "auto" }, shorten(view.commits[changes[0].at].subject, 120)), ": ",
      make("bdi", {}, [...changes.map((change) => `${shorten(change.backend, 40)} ${changeWords(change)}`), ...moved(changes[0].at)].join("; ")))),
    ...(byCommit.length > TOLD_AT_MOST ? [make("li", {}, `and ${byCommit.length - TOLD_AT_MOST} more: in the table`)] : [])))];
}

/** A commit's name, linked to its comparison with the one before. @param {Shown} shown @param {number} at @returns {HTMLElement} */
function commitLink({ view, chosen }, at) {
  const [commit, before] = [view.commits[at], view.commits[at + 1]];
  const name = make("code", {}, commitId(commit));
  if (!before) return name;
  return make("a", { href: leadTo(chosen, { page: "compare", commit: commitId(commit), base: commitId(before) }), title: "every cell beside the commit before" }, name);
}

/** Milliseconds since 1970 of "2026-01-05 09:00 UTC"; null if it is not known. @param {string} date */
function momentOf(date) {
  const moment = Date.parse(date.replace(" UTC", "Z").replace(" ", "T"));
  return Number.isNaN(moment) ? null : moment;
}

/**
 * @param {HistoryLine[]} lines @param {HistoryRow[]} rows @param {Map<number, [string, string][]>} beside @param {Shown} shown
 * @param {any} specification @param {typeof HISTORY_QUANTITIES.time} quantity @returns {HTMLElement[]}
 */
function historyChart(lines, rows, beside, { chosen }, specification, { say, noun, kinds }) {
  const oldestFirst = rows.toReversed().filter(({ commit }) => chosen.order === "commit" || momentOf(commit.date) !== null);
  const few = oldestFirst.length <= DOTS_UP_TO;
  const axis = (/** @type {Commit} */ commit) => ({ commit: commitId(commit), date: momentOf(commit.date) });
  const numbers = lines.flatMap(({ backend, value, low, high, status, changes }) => oldestFirst.flatMap(({ at, commit }) => {
    const own = value[at] ?? null;
    if (own === null || own <= 0 || status[at] !== "ok") return [];
    const common = { ...axis(commit), backend, value: own, text: `${backend}, ${commitId(commit)}: ${say(own)}` };
    return [
      { ...common, kind: "measured", low: low[at] ?? null, high: high[at] ?? null },
      ...changes.filter((change) => change.at === at && kinds.slice(0, 2).includes(change.kind)).map((change) => ({
        ...common, kind: "change", tier: change.tier, up: change.kind !== kinds[1],
        label: change.tier === "confirmed" && /^[+-]/.test(change.words) ? change.words.replace(/\.\d /, " ") : "",
        text: `${backend} ${changeWords(change)}, at ${commitId(commit)}: ${commit.subject}`,
      })),
    ];
  }));
  if (numbers.length === 0) return [make("p", {}, `No ${noun} is known of this cell.`)];
  const events = oldestFirst.flatMap(({ at, commit, said }) => {
    const kinds = [...(beside.get(at) ?? []).map(([kind]) => kind), ...lines.flatMap(({ changes }) => changes.filter((change) => change.at === at).map(({ kind }) => kind))];
    const letters = distinct(kinds.flatMap((kind) => EVENT_LETTERS[kind] ?? []), (letter) => letter).join("");
    return letters ? [{ ...axis(commit), kind: "event", label: letters, text: `${commitId(commit)}: ${said.join("; ")}`, backend: "" }] : [];
  });
  const measured = numbers.filter(({ kind }) => kind === "measured");
  const spec = structuredClone(specification);
  spec.datasets = { measured, dots: few ? measured : [], changes: numbers.filter(({ kind }) => kind === "change"), events };
  ticksWhereNarrow(spec, measured.map(({ value }) => value));
  const ids = oldestFirst.map(({ commit }) => commitId(commit));
  const each = Math.ceil(ids.length / (innerWidth < 720 ? 4 : 12));
  spec.encoding.x = chosen.order === "date"
    ? { field: "date", type: "temporal", scale: { type: "utc" }, title: null }
    : { field: "commit", type: "ordinal", scale: { domain: ids }, title: null, axis: { labelAngle: -40, grid: false, values: ids.filter((_, n) => n % each === 0) } };
  return [
    chart(spec, distinct(measured, ({ backend }) => backend).map((backend) => ({ backend })), [make("b", {}, `${noun[0].toUpperCase()}${noun.slice(1)} over commits. `),
      `${noun === "time" ? "The bands are intervals of the median. " : ""}▲ grew, ▼ fell; hollow: suspect. Letters: ${lettersThere(events)}`], innerWidth < 720 ? 380 : Math.min(1100, innerWidth - 300)),
  ];
}

/** Where less than two of the usual ticks lie between the values, leaves the choice of them to the scale. @param {any} spec @param {number[]} values */
function ticksWhereNarrow({ layer }, values) {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  for (const { encoding: { y } } of layer) {
    if (y?.axis && y.axis.values.filter((/** @type {number} */ tick) => least <= tick && tick <= most).length < 2) Object.assign(y.axis, { values: null, tickCount: 5 });
  }
}

/** What the letters in a chart mean. @param {{label: string}[]} events */
function lettersThere(events) {
  const meaning = { E: "the environment moved (a call that no commit can change took another time)", V: "another PyTorch or Python", K: "other kernels ran", S: "another status, such as ok or out of memory", N: "a cell came or went" };
  const there = Object.entries(meaning).filter(([letter]) => events.some(({ label }) => label.includes(letter)));
  return there.length ? `${there.map(([letter, words]) => `${letter} ${words}`).join("; ")}.` : "none here.";
}

/** Why a line has no number at a commit, or a wrong one; "" if all is well. @param {HistoryLine} line @param {number} at */
function historyReason({ status, reason }, at) {
  const state = status[at];
  if (state === null) return "not in this commit’s record";
  return state === "ok" ? "" : [words(state), reason[at]].filter(Boolean).join(": ");
}

/** Which backends have no number, where, and why. @param {HistoryLine[]} lines @param {HistoryRow[]} rows @returns {HTMLElement[]} */
function historyReasons(lines, rows) {
  const empty = lines.flatMap((line) => [...groupBy(rows.filter(({ at }) => historyReason(line, at)), ({ at }) => historyReason(line, at))]
    .map(([why, own]) => ({ backend: line.backend, why, at: JSON.stringify(own.map(({ at }) => at)), own })));
  if (empty.length === 0) return [];
  const alike = [...groupBy(empty, ({ why, at }) => why + at).values()].sort(([a], [b]) => a.own[0].at - b.own[0].at);
  const where = (/** @type {HistoryRow[]} */ own) => own.length === rows.length ? "at every commit shown" : own.length === 1 ? `at ${commitId(own[0].commit)}`
    : `at ${own.length} of ${rows.length} commits, ${commitId(own[own.length - 1].commit)} to ${commitId(own[0].commit)}`;
  return [make("details", {}, make("summary", {}, `Without a number somewhere, and why: ${distinct(empty, ({ backend }) => backend).length} of ${lines.length} backends`),
    make("ul", {}, ...alike.slice(0, REASONS_AT_MOST).map((same) => make("li", { dir: "auto" },
      make("b", {}, same.map(({ backend }) => shorten(backend, 40)).join(", ")), ` ${where(same[0].own)}: ${shorten(same[0].why, 300)}`)),
    ...(alike.length > REASONS_AT_MOST ? [make("li", {}, `and ${alike.length - REASONS_AT_MOST} more: in the table`)] : [])))];
}

/** Every commit with what happened, and every number. @param {HistoryLine[]} lines @param {HistoryRow[]} rows @param {Shown} shown @param {typeof HISTORY_QUANTITIES.time} quantity @param {string} url */
function historyTable(lines, rows, shown, { noun, say }, url) {
  /** @type {Column<HistoryRow>[]} */
  const columns = [
    { name: "commit", title: "commit", value: ({ commit }) => commitId(commit), show: ({ at }) => commitLink(shown, at) },
    { name: "date", title: "date", value: ({ commit }) => commit.date, show: ({ commit }) => make("span", { class: "day", title: commit.date }, commit.date.slice(0, 10)) },
    { name: "message", title: "message", value: ({ commit }) => commit.subject, show: ({ commit }) => {
      const text = make("bdi", {}, shorten(commit.subject, 120));
      return url && /^[0-9a-f]+$/.test(commit.hash) ? make("a", { href: url + commit.hash, rel: "noreferrer" }, text) : text;
    } },
    { name: "changed", title: "what changed", value: ({ said }) => said.join("; "), show: ({ said }) => make("span", said.length ? { class: "said" } : {}, said.join("; ")) },
    ...lines.map((line, n) => /** @type {Column<HistoryRow>} */ ({
      name: `backend-${n}`, title: shorten(line.backend, 40), value: ({ at }) => line.value[at] ?? null,
      show: ({ at }) => {
        const [own, why] = [line.value[at] ?? null, historyReason(line, at)];
        return make("span", why ? { class: "why", title: shorten(why, 1000) } : {}, [own === null ? "" : say(own), shorten(why, 60)].filter(Boolean).join(", "));
      },
    })),
  ];
  return dataTable({ caption: `Commit by commit: ${noun}, newest first`, file: `history-${noun}`, columns, rows, chosen: shown.chosen });
}
