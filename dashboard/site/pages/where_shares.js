/**
 * The share-of-workloads curve, a performance profile (Dolan and More 2002): on what share of the measured problems a
 * backend is at least p times as good as eager. 0 is "cannot run"; a backend that runs where eager does not fit is
 * better by any p.
 * @typedef {{problems: number, withoutEager: number, ratios: Map<string, number[]>}} Shares
 */

const TIMES_TOLD = [1, 1.5, 2, 3, 5, 10, 30];

/**
 * @param {Cell[]} cells of one dtype and direction @param {(cell: Cell) => {value: number | null, room: boolean}} read what
 *   counts of a cell, and whether it needs no more than is allowed
 * @returns {Shares}
 */
function sharesOf(cells, read) {
  const problems = [...groupBy(cells.filter((cell) => cell.size && cell.level !== "stack"), (cell) => JSON.stringify(
    [cell.operation, cell.level, cell.S, cell.R, cell.T, cell.N_head, cell.c, cell.B, cell.mask])).values()].map((own) => {
    /** @type {Map<string, Cell>} */
    const answers = new Map();
    for (const cell of own) if (cell.status === "ok" || !answers.has(cell.backend)) answers.set(cell.backend, cell);
    return answers;
  }).filter((answers) => [...answers.values()].some((cell) => cell.status === "ok"));
  /** @type {Shares} */
  const found = { problems: 0, withoutEager: 0, ratios: new Map(distinct(cells, (cell) => cell.backend).map((name) => [name, []])) };
  for (const answers of problems) {
    const eager = answers.get("eager");
    const yardstick = eager ? eagerOf(eager, read(eager)) : null;
    if (yardstick === null) continue;
    found.problems += 1;
    if (yardstick === Infinity) found.withoutEager += 1;
    for (const [backend, ratios] of found.ratios) {
      const cell = answers.get(backend);
      const { value, room } = cell && cell.status === "ok" ? read(cell) : { value: null, room: false };
      ratios.push(value && room ? yardstick / value : 0);
    }
  }
  return found;
}

/** Eager's number; Infinity where it does not fit; null where there is none to compare with. @param {Cell} eager @param {{value: number | null, room: boolean}} known */
function eagerOf({ status }, { value, room }) {
  if (status !== "ok" && !NO_ROOM.has(status)) return null;
  if (value && room) return value;
  return status === "ok" && room ? null : Infinity;
}

/** @param {number[]} ratios @param {number} times */
function shareAtLeast(ratios, times) {
  return ratios.filter((ratio) => ratio >= times).length / ratios.length;
}

/** Backends that run at all, the one with the largest share first. @param {Shares} shares @returns {[string, number[]][]} */
function rankedShares({ ratios }) {
  const able = [...ratios].filter(([, own]) => own.some((ratio) => ratio > 0));
  const told = timesWorthTelling(able);
  return able.sort(([a, x], [b, y]) => shareAtLeast(y, told) - shareAtLeast(x, told) || Math.max(...y) - Math.max(...x) || a.localeCompare(b));
}

/** The largest round ratio that some backend reaches on half of the problems; 1 if none. @param {[string, number[]][]} able */
function timesWorthTelling(able) {
  return TIMES_TOLD.findLast((times) => able.some(([, ratios]) => shareAtLeast(ratios, times) >= 0.5)) ?? 1;
}

/** What is said of a backend: "at least 2× as fast as eager". @param {string} by @param {number} times */
function timesWords(by, times) {
  if (by === "memory") return times === 1 ? "content with eager’s memory" : `content with 1/${times} of eager’s memory`;
  return times === 1 ? "no slower than eager" : `at least ${times}× as fast as eager`;
}

/** The curve's heading, its words, its chart and its table. @param {Shares} shares @param {string} by @param {string} allowed @param {any} spec @returns {Drawn} */
function sharesSection(shares, by, allowed, spec) {
  const title = make("h2", { id: "where-shares", tabindex: "-1" }, "On what share of the problems?");
  const ranked = rankedShares(shares);
  if (shares.problems === 0 || ranked.length === 0) return [title, make("p", {}, "No problem was measured with eager, so there is nothing to compare with.")];
  const problems = shares.problems === 1 ? "the one problem measured" : `the ${shares.problems} problems measured`;
  const others = ranked.filter(([name]) => name !== "eager");
  const told = timesWorthTelling(others);
  const words = others.slice(0, 3).map(([name, ratios]) => make("li", {}, make("bdi", {}, shorten(name, 60)),
    ` is ${timesWords(by, told)} on `, make("b", {}, percent(shareAtLeast(ratios, told))), ` of ${problems}`,
    told > 1 ? `, and ${timesWords(by, 1)} on ${percent(shareAtLeast(ratios, 1))}.` : "."));
  const caption = [make("b", {}, `Share of ${problems}, `), make("span", { class: "quiet" },
    `on which a backend is at least so many times ${by === "memory" ? "as sparing of memory" : "as fast"} as eager${allowed}. Higher and farther right is better.`)];
  const values = shareValues(shares, ranked, by);
  return [
    title,
    make("p", {}, "All problems of all operations that were measured here, counted by medians. Where a backend cannot run, it reaches nothing.",
      shares.withoutEager ? ` On ${shares.withoutEager} of them eager does not fit: a backend that runs there counts at any ratio.` : ""),
    make("ul", {}, ...words),
    ...(hasCharts() ? [chart(shareSpec(spec, by), values, caption)] : []),
    sharesTable(ranked, hasCharts() ? [make("b", {}, "The same in numbers")] : caption),
  ];
}

/** @param {any} spec @param {string} by */
function shareSpec(spec, by) {
  const copy = structuredClone(spec);
  copy.encoding.x.title = by === "memory" ? "times less memory than eager" : "times as fast as eager";
  return copy;
}

/**
 * The corners of every backend's line, and its sign at three of them for those who cannot tell colours apart.
 * @param {Shares} shares @param {[string, number[]][]} ranked @param {string} by
 */
function shareValues(shares, ranked, by) {
  const finite = ranked.flatMap(([, ratios]) => ratios).filter((value) => value > 0 && value < Infinity);
  const [least, most] = [Math.max(Math.min(...finite, 0.9), 0.1), Math.max(...finite, 2) * 1.15];
  return ranked.flatMap(([backend, ratios]) => {
    const point = (/** @type {number} */ times, /** @type {string} */ kind) => ({
      backend, times, kind, share: shareAtLeast(ratios, times),
      text: `${backend} is ${timesWords(by, Number(times.toPrecision(3)))} on ${percent(shareAtLeast(ratios, times))} of ${shares.problems} problems`,
    });
    const corners = ratios.filter((value) => value > least && value < most).sort((a, b) => a - b);
    const signs = [0.1, 0.5, 0.9].map((share) => corners[Math.floor(share * corners.length)]).filter((times) => times !== undefined);
    return [...[least, ...distinct(corners, (value) => value), most].map((times) => point(times, "step")), ...distinct(signs, (value) => value).map((times) => point(times, "sign"))];
  });
}

/** @param {[string, number[]][]} ranked @param {HTMLElement[]} caption */
function sharesTable(ranked, caption) {
  return make("figure", { class: "series shares" },
    make("figcaption", {}, ...caption),
    make("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": "Shares at round ratios" }, make("table", {},
      make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "Backend"), ...TIMES_TOLD.map((times) => make("th", { scope: "col" }, `≥ ${times}×`)))),
      make("tbody", {}, ...ranked.map(([name, ratios]) => make("tr", {},
        make("th", { scope: "row" }, make("bdi", {}, ...breakable(shorten(name, 60)))),
        ...TIMES_TOLD.map((times) => make("td", {}, percent(shareAtLeast(ratios, times))))))))));
}
