/** @param {Trust} trust @returns {Drawn} */
function noiseChart({ index, timed }) {
  const values = operationsOf(timed.map(({ cell }) => cell)).flatMap((cells) => timed.flatMap(({ cell, noise }) =>
    noise?.by_rounds && cells.includes(cell) ? [{
      share: noise.by_rounds, operation: rowOfOperation(cell), backend: cell.backend,
      text: `${cell.backend}, ${sizeHeading(cell.size)}: ${fine(noise.by_rounds)}`,
    }] : []));
  if (values.length === 0) return [make("p", {}, "Of no cell here is it known; the table has the intervals.")];
  if (!hasCharts()) return [make("p", {}, "The charts’ library was not there when this site was built; the table has every number.")];
  const spec = structuredClone(index.charts.noise);
  roomForRows(spec);
  return [chart(spec, values,
    ["Every point a cell: a difference between two commits that is smaller than this may be chance. Farther left is better."], 620)];
}

/** All cells, the noisiest first. @param {Trust} trust @param {Choices} chosen */
function trustTable({ timed }, chosen) {
  const share = (/** @type {number | null | undefined} */ value) => value == null ? "" : fine(value);
  const state = (/** @type {Timed} */ { noise }, /** @type {string} */ name) => noise?.state[name] ?? [null, null];
  const after = (/** @type {Timed} */ row, /** @type {string} */ name) => state(row, name)[1] ?? state(row, name)[0];
  const both = (/** @type {Timed} */ row, /** @type {string} */ name, /** @type {(value: number) => string} */ say) =>
    [...new Set(state(row, name).flatMap((value) => value === null ? [] : [say(value)]))].join(", then ");
  /** @type {Column<Timed>[]} */
  const columns = [
    { name: "backend", title: "Backend", value: ({ cell }) => cell.backend, show: ({ cell }) => make("a", {
      href: toAddress({ ...chosen, cell: measurementKey(cell), at: "trust-cell" }), ...(measurementKey(cell) === chosen.cell ? { "aria-current": "true" } : {}) }, make("bdi", {}, ...breakable(shorten(cell.backend, 60)))) },
    { name: "operation", title: "Operation", value: ({ cell }) => titleOf(cell) },
    { name: "size", title: "Size", value: ({ cell }) => sizeHeading(cell.size) },
    { name: "seconds", title: "Time", value: ({ cell }) => cell.seconds, show: ({ cell }) => si(Number(cell.seconds), "s") },
    { name: "interval", title: "Interval", value: ({ cell }) => halfWidth(cell), show: ({ cell }) => `−${fine(1 - cell.seconds_low / Number(cell.seconds))} to +${fine(cell.seconds_high / Number(cell.seconds) - 1)}` },
    { name: "rounds", title: "Smallest change, by its rounds", value: ({ noise }) => noise?.by_rounds ?? null, show: ({ noise }) => share(noise?.by_rounds) || "–" },
    { name: "history", title: "Smallest change, by its history", value: ({ noise }) => noise?.by_history ?? null, show: ({ noise }) => share(noise?.by_history) || "–" },
    { name: "n", title: "Samples", value: ({ cell }) => cell.n, show: ({ cell }) => cell.rounds ? `${cell.n} in ${counted(cell.rounds, "round")}` : String(cell.n) },
    { name: "disturbed", title: "Disturbed by", value: ({ cell }) => cell.disturbed, show: ({ cell }) => shorten(cell.disturbed, 120) || "nothing" },
    { name: "again", title: "Rounds taken again", value: ({ noise }) => noise?.discarded ?? null },
    { name: "load", title: "Load", value: (row) => after(row, "load1"), show: (row) => both(row, "load1", (value) => value.toFixed(2)) },
    { name: "steal", title: "Stolen", value: (row) => after(row, "steal"), show: (row) => both(row, "steal", fine) },
    { name: "others", title: "Other processes", value: (row) => after(row, "others"), show: (row) => both(row, "others", fine) },
    { name: "mhz", title: "MHz", value: (row) => after(row, "mhz"), show: (row) => both(row, "mhz", (value) => String(Math.round(value))) },
  ];
  return dataTable({ caption: "Noise, cell by cell, the noisiest first", file: "noise", columns, rows: timed, chosen });
}

/** @param {Trust} trust @returns {Drawn} */
function anchorPart({ index, anchors }) {
  const words = "Every sweep also times two calls of PyTorch alone, a matrix product (matmul) and a copy. No commit of this project can change them: if they move, the machine did.";
  if (anchors.length < 2) {
    const seconds = anchors.flatMap(([, own]) => Object.entries(own).map(([name, value]) => `${shorten(name, 40)} ${si(value, "s")}`));
    return [make("p", {}, words, ` They are recorded ${anchors.length ? `at one commit so far: ${seconds.join(", ")}` : "at no commit yet"}.`)];
  }
  const values = anchorShares(anchors).map(({ hash, at, name, seconds, share }) => ({
    order: at + 1, value: share, backend: name, text: `${name} at ${hash.slice(0, 8)}: ${si(seconds, "s")}` }));
  const [, newest] = anchors[anchors.length - 1];
  return [make("p", {}, words, ` At the newest commit: ${Object.entries(newest).map(([name, value]) => `${shorten(name, 40)} ${si(value, "s")}`).join(", ")}.`),
    ...(hasCharts() ? [chart(structuredClone(index.charts.anchors), values, [make("b", {}, "Anchors over commits"), make("span", { class: "quiet" }, ", over their medians")], 560)] : [])];
}

/** @param {Trust} trust @returns {Drawn} */
function formulas({ index }) {
  return [
    make("p", {}, make("b", {}, "By its rounds. "), "A cell’s samples are taken in rounds, in which all backends take turns. Samples of one round resemble each other, so a round is one observation: the lower quartile of log time. "
      + "With n rounds of standard deviation s, two sweeps like this one differ by e = s·√(2/n) by chance, and a change of exp((t₀.₉₉ + t₀.₉₀)·e) − 1 is found nine times in ten, with a false alarm in fifty; t is Student’s with 2(n − 1) degrees of freedom. "
      + "How processes and days differ comes on top: ", make("code", {}, "python -m benchmarks compare"), " measures two commits in pairs, and sees less."),
    make("p", {}, make("b", {}, "By its history. "), "How far a next commit must lie from the last twenty to be called suspect at once: six standard deviations from one commit to the next, and 1 % at least. It takes eleven commits."),
    make("p", {}, make("b", {}, "Interval. "), "Of the median, as in all tables here; its ends over the median. The table sorts them by half their distance."),
    make("p", { class: "quiet" }, `The site has the samples of the newest ${index.kept} commits of every machine; the journals in results/ have all.`),
  ];
}
