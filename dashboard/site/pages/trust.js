/**
 * What dashboard/pages/trust.py writes. Shares: 0.05 is 5 %; null is not known.
 * @typedef {{by_rounds: number | null, by_history: number | null, state: Record<string, [number | null, number | null]>, discarded: number, samples: number[] | null, rounds: number[], processes: number[]}} Noise
 * @typedef {{module: string, started: string, wall_seconds: number | null, timed_seconds: number | null, discarded_rounds: number | null}} Swept
 * @typedef {{machine: string, env: string, threads: number | null, files: {hash: string, dirty: boolean, file: string}[], anchors: [string, Record<string, number>][]}} TrustView
 * @typedef {{kept: number, views: TrustView[], charts: {noise: any, samples: any, anchors: any}}} TrustIndex
 * @typedef {{cell: Cell, noise: Noise | null}} Timed  noise is null for commits without samples in the site
 * @typedef {{index: TrustIndex, anchors: [string, Record<string, number>][], timed: Timed[], sweeps: Swept[], leftOut: number, kept: boolean}} Trust
 */

addPage("trust", {
  title: "Trust",
  about: "How far can these times be trusted? What a clock says of one call changes from call to call and from minute to minute; a difference smaller than that is none.",
  uses: ["place", "commit", "direction", "dtype"],
  choices: {
    cell: { legend: "Cell, after the change it can show", as: "select", values: async (shown) => cellLabels((await trustOf(shown)).timed) },
    sort: { legend: "", values: null },
    filter: { legend: "", values: null },
  },
  draw: async (shown) => {
    const trust = await trustOf(shown);
    const chosen = trust.timed.find(({ cell }) => measurementKey(cell) === shown.chosen.cell);
    if (!chosen) return [make("p", {}, "Nothing was timed here in this direction and number format.")];
    return [
      make("div", { class: "verdict" },
        make("p", {}, make("strong", {}, noiseInShort(trust)), " ", noiseInWords(trust)),
        make("ul", {}, ...[disturbancesInWords(trust.timed), stateInWords(trust.timed), sweepInWords(trust.sweeps), anchorsInWords(trust.anchors), ...leftOutInWords(trust)]
          .filter(Boolean).map((sentence) => make("li", { dir: "auto" }, sentence)))),
      chapter("trust-noise", "The smallest change that each cell can show", noiseChart(trust)),
      chapter("trust-cell", "One cell, sample by sample", cellPart(chosen, trust)),
      chapter("trust-table", "Every cell", [trustTable(trust, shown.chosen)]),
      chapter("trust-anchors", "What no commit can change", anchorPart(trust)),
      chapter("trust-formula", "How these numbers are made", formulas(trust)),
    ];
  },
});

/** The timed cells of what is shown, each once and the noisiest first, with what is known of their noise. @param {Shown} shown @returns {Promise<Trust>} */
async function trustOf({ view, commit, cells, chosen }) {
  /** @type {TrustIndex} */
  const index = await load("trust");
  const own = index.views.find((other) => other.machine === view.machine && other.env === view.env && other.threads === view.threads);
  const name = own?.files.find(({ hash, dirty }) => hash === commit.hash && dirty === commit.dirty)?.file;
  const kept = name === undefined ? null : await load(name);
  const at = new Map((kept?.cells.place ?? []).map((/** @type {number} */ place, /** @type {number} */ row) => [place, row]));
  const places = commit.cells?.place ?? [];
  const noises = new Map(cells.map((cell, row) => [cell, noiseAt(kept, at.get(places[row]))]));
  const timed = onceEach(cells.filter((cell) => cell.seconds !== null && cell.direction === chosen.direction && cell.dtype === chosen.dtype))
    .map((cell) => ({ cell, noise: noises.get(cell) ?? null }))
    .sort((a, b) => changeOf(b) - changeOf(a) || halfWidth(b.cell) - halfWidth(a.cell));
  return { index, anchors: own?.anchors ?? [], timed, sweeps: kept?.sweeps ?? [], leftOut: kept?.left_out ?? 0, kept: kept !== null };
}

/** @param {any} kept @param {number | undefined} row @returns {Noise | null} */
function noiseAt(kept, row) {
  if (row === undefined) return null;
  const { by_rounds, by_history, state, discarded, samples, layout } = kept.cells;
  const [rounds, processes] = kept.layouts[layout[row]];
  return { by_rounds: by_rounds[row], by_history: by_history[row], state: state[row], discarded: discarded[row], samples: samples[row], rounds, processes };
}

/** The smallest change by its rounds; -1 if that is not known. @param {Timed} timed */
function changeOf({ noise }) {
  return noise?.by_rounds ?? -1;
}

/** Half the interval of the median, over the median. @param {Cell} cell */
function halfWidth(cell) {
  return (cell.seconds_high - cell.seconds_low) / 2 / Number(cell.seconds);
}

/** @param {Timed[]} timed @returns {Record<string, string>} */
function cellLabels(timed) {
  return Object.fromEntries(timed.map(({ cell, noise }) => [measurementKey(cell),
    `${noise?.by_rounds == null ? "" : `${fine(noise.by_rounds)}: `}${shorten(cell.backend, 30)}, ${titleOf(cell)}, ${sizeHeading(cell.size)}`]));
}

/** percent() with a digit more below a tenth: "2.4 %". @param {number} share */
function fine(share) {
  return share < 0.0995 ? `${(share * 100).toFixed(1)}${SPACE}%` : percent(share);
}
