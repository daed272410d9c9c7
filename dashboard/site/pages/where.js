const WHERE_BY = { time: "time", memory: "memory", within: "time, within a memory" };
const WHERE_GIGABYTES = ["16", "24", "40", "80", "141"];

addPage("where", {
  title: "Who wins where",
  about: "One map for each attention, one tile for each size: the backend that wins there, by name and by colour. The stronger the colour, the surer the win.",
  uses: ["place", "commit", "direction", "dtype"],
  choices: {
    by: { legend: "Who wins by", values: () => WHERE_BY },
    within: {
      legend: "Within", values: (shown) => shown.chosen.by === "within"
        ? Object.fromEntries(WHERE_GIGABYTES.map((size) => [size, `${size} GB`])) : {},
    },
    heads: { legend: "N_head (heads)", as: "select", values: ({ cells }) => headsOf(cells) },
    wall: { legend: "Memory wall of", as: "select", values: ({ cells }) => wallsOf(cells) },
    sort: { legend: "", values: null },
    filter: { legend: "", values: null },
  },
  draw: async ({ view, cells: all, chosen }) => {
    cellsOnPage.clear();
    const file = await load("where");
    const cells = all.filter((cell) => cell.direction === chosen.direction && cell.dtype === chosen.dtype && cell.level !== "stack" && cell.size);
    const machine = file.limits.find((/** @type {any} */ limit) => limit.machine === view.machine && limit.env === view.env)?.bytes ?? null;
    const limit = chosen.by === "within" ? Number(chosen.within) * 1e9 : machine;
    const counts = countsOf(file, chosen);
    const colours = Object.fromEntries(file.colours.domain.map((/** @type {string} */ name, /** @type {number} */ at) => [name, file.colours.range[at]]));
    const maps = operationsOf(all.filter((cell) => cell.level !== "stack" && cell.size)).flatMap((operation) =>
      [...groupBy(operation, (cell) => JSON.stringify([cell.c, cell.B, cell.mask])).values()].map((alike) => {
        const own = alike.filter((cell) => cells.includes(cell));
        const rules = { by: chosen.by, limit, wall: chosen.wall, quantiles: file.quantiles, counts: (/** @type {Place} */ place) => counts(alike[0], place) };
        const axes = axesOfMap(alike);
        return { first: alike[0], axes, rules, tiles: own.length ? tilesOf(own, placesOf(alike, axes, chosen.heads), rules) : [] };
      }));
    const tiles = maps.flatMap((map) => map.tiles.map((tile) => ({ ...tile, cell: map.first })));
    if (tiles.length === 0) return [make("p", {}, "Nothing of this was measured: choose another direction, another kind of numbers, or another commit.")];
    const shares = sharesOf(cells, (cell) => readShare(cell, chosen.by, limit, counts));
    const allowed = chosen.by === "within" ? `, within ${chosen.within}${SPACE}GB` : "";
    return [
      make("p", {}, "Over all maps: ", make("strong", {}, winsWords(tiles))),
      make("p", {}, make("strong", {}, `${countOf(tiles, "measured")} of ${tiles.length} tiles are measured, ${countOf(tiles, "predicted")} predicted. `),
        countOf(tiles, "predicted") === 0 ? "" : "The benchmarks vary one size at a time. What other combinations take follows from those series, as far as the effects of two sizes multiply: such a tile is dotted, paler, and says “predicted”.",
        ...(countOf(tiles, "not measured") ? [" Series of three sizes or more let the rest be predicted: ", make("code", {}, "python -m benchmarks run --effort full"), " measures them."] : [])),
      whereLegend(chosen, limit),
      ...maps.filter((map) => map.tiles.length).map((map) => mapSection(map, colours, chosen)),
      make("section", { "aria-labelledby": "where-shares" }, ...sharesSection(shares, chosen.by, allowed, file.shares)),
      make("section", { "aria-labelledby": "where-numbers" }, make("h2", { id: "where-numbers" }, "All tiles in numbers"), tilesTable(tiles, chosen)),
    ];
  },
});

/** @param {Cell[]} cells @returns {Record<string, string>} */
function headsOf(cells) {
  const heads = distinct(cells.filter((cell) => cell.level === "core" && cell.N_head), (cell) => Number(cell.N_head)).sort((a, b) => a - b);
  return { own: "each its own", ...Object.fromEntries(heads.map((n) => [`h${n}`, `${n}`])) };
}

/** @param {Cell[]} cells @returns {Record<string, string>} */
function wallsOf(cells) {
  const names = distinct(cells.filter((cell) => bytesKnown(cell)), (cell) => cell.backend).sort((a, b) => Number(b === "eager") - Number(a === "eager") || a.localeCompare(b));
  return Object.fromEntries(names.map((name) => [name, shorten(name, 40)]));
}

/** The places of a map, row by row. @param {Cell[]} cells @param {{down: string | null, across: string}} axes @param {string} heads @returns {Place[]} */
function placesOf(cells, { down, across }, heads) {
  const centre = centreOf(cells);
  if (heads !== "own") centre.N_head = Number(heads.slice(1));
  const rows = down ? sizesAlong(cells, down) : [null];
  return rows.flatMap((y) => sizesAlong(cells, across).map((x) => ({ ...centre, ...(down ? { [down]: y } : {}), [across]: x })));
}

/** What the file knows of a problem in the chosen dtype and direction. @param {any} file @param {Choices} chosen @returns {(about: Cell, place: Place) => Counts | null} */
function countsOf({ numbers, widths }, { dtype, direction }) {
  return ({ operation, level, c }, place) => {
    const found = numbers[`${operation} ${level}`]?.[`${placeKey(place)},${c ?? ""}`];
    if (!found || !widths[dtype]) return null;
    const [inputs, scores, forward, training] = found.map((/** @type {number} */ count) => count * widths[dtype]);
    return { inputs, scores, output: direction === "training" ? training : forward };
  };
}

/** @param {Cell} cell @param {string} by @param {number | null} limit @param {(about: Cell, place: Place) => Counts | null} counts */
function readShare(cell, by, limit, counts) {
  const bytes = cell.bytes ?? cell.predicted_bytes;
  if (by === "memory") return { value: bytes, room: true };
  const inputs = counts(cell, /** @type {any} */ (cell))?.inputs ?? 0;
  return { value: cell.seconds, room: by !== "within" || limit === null || (bytes !== null && bytes + inputs <= limit) };
}

/** @param {Tile[]} tiles @param {Tile["kind"]} kind */
function countOf(tiles, kind) {
  return tiles.filter((tile) => tile.kind === kind).length;
}

/** How to read the maps. @param {Choices} chosen @param {number | null} limit */
function whereLegend({ by, wall, within }, limit) {
  const over = by === "memory" ? "its memory beside eager’s" : "how many times as fast as eager";
  const allowed = by === "within" ? `${within}${SPACE}GB, inputs included` : limit === null ? "" : `the ${si(limit, "B")} that a call may take on this machine, inputs included`;
  return make("div", { class: "legend where-legend" }, ...[
    ["sure", "strong: wins by many times the uncertainty"], ["unsure", "pale: wins barely"],
    ["level", "plain: level, a tie"], ["guess", "dotted: predicted"], ["empty", "hatched: nothing fits or nothing ran"],
    ["unknown", "dashed: not measured, and not to be predicted"],
    ...(allowed ? [["wall", `thick line: beyond it ${shorten(wall, 40)} does not fit in ${allowed}`]] : []),
  ].map(([kind, text]) => make("span", {}, make("i", { class: kind }), text)), make("span", {}, `In a tile: who, and ${over}.`),
  make("span", {}, by === "memory" ? "Uncertainty: memory is exact; less than 1 % apart counts as level." : "Uncertainty: the parts of two intervals that face each other; at one time the uncertainty they touch."),
  make("span", {}, "Hover, focus or tap a tile for what stands behind it."));
}

/**
 * @param {{first: Cell, axes: {down: string | null, across: string}, rules: Rules, tiles: Tile[]}} map
 * @param {Record<string, string>} colours @param {Choices} chosen
 */
function mapSection({ first, axes, rules, tiles }, colours, chosen) {
  const id = `where-${sectionId(first)}-${first.mask}-${first.c}-${first.B}`;
  const fixed = WHERE_AXES.filter((axis) => axis !== axes.down && axis !== axes.across && tiles[0].place[axis] !== null)
    .map((axis) => `${axis} ${tiles[0].place[axis]}`).concat(first.c === null ? [] : `c ${first.c}`, first.mask && first.mask !== "none" ? `mask ${first.mask}` : []);
  const words = [axes.down, axes.across].flatMap((axis) => axis ? `${axis}, ${data.axes[axis] ?? ""}` : []).join("; ");
  const caption = [make("b", {}, `Over ${words}`), make("span", { class: "quiet" }, `: ${fixed.join(", ")}`)];
  return make("section", { class: "operation", "aria-labelledby": id },
    make("h2", { id, tabindex: "-1" }, titleOf(first), make("small", {}, data.operations[first.operation]?.algorithm ?? "")),
    make("div", { class: "verdict" }, make("p", {}, make("strong", {}, winsWords(tiles))), make("p", { class: "quiet" }, standingWords(tiles, rules))),
    tileMap(tiles, axes, rules, colours, { caption, links: (tile) => tileLinks(tile, chosen) }));
}

/** Where more stands about a tile. @param {Tile} tile @param {Choices} chosen */
function tileLinks(tile, chosen) {
  const cell = tile.entries.find((entry) => entry.cell?.status === "ok")?.cell;
  return [
    make("a", { href: leadTo(chosen, { page: "verdict" }) }, "All that was measured"),
    ...(cell ? [make("a", { href: leadToHistory(chosen, cell) }, "This size over the commits")] : []),
  ];
}

/** "a, b and c". @param {string[]} names */
function namesTogether(names) {
  return names.length > 1 ? `${names.slice(0, -1).join(", ")} and ${names[names.length - 1]}` : names.join("");
}

/** Who wins, and on how many tiles. @param {Tile[]} tiles */
function winsWords(tiles) {
  const won = tiles.filter((tile) => tile.first);
  if (won.length === 0) return "Nobody wins here.";
  const tied = won.filter((tile) => tile.level.length);
  const names = (/** @type {Tile} */ { first, level }) => namesTogether([first, ...level].map((entry) => shorten(entry?.backend ?? "", 40)).sort());
  const [often, next] = [...groupBy(tied, names)].sort((a, b) => b[1].length - a[1].length);
  const tie = often ? `: ${next ? "mostly " : ""}${often[0]}` : "";
  if (tied.length === won.length) return `${won.length === 1 ? "The one tile is" : `All ${won.length} tiles are`} level${tie}.`;
  const clear = [...groupBy(won.filter((tile) => !tile.level.length), names)].sort((a, b) => b[1].length - a[1].length);
  const parts = clear.map(([name, own]) => `${name} wins on ${own.length}`);
  parts[0] += ` of ${won.length} ${won.length === 1 ? "tile" : "tiles"}`;
  return `${[...parts, ...(tied.length ? [`${tied.length} ${tied.length === 1 ? "is" : "are"} level${tie}`] : [])].join(", ")}.`;
}

/** How many tiles are measured, and where the wall stands. @param {Tile[]} tiles @param {Rules} rules */
function standingWords(tiles, { limit, wall }) {
  const kinds = /** @type {const} */ (["measured", "predicted", "not measured", "nothing fits", "nothing ran"]).filter((kind) => countOf(tiles, kind));
  const known = tiles.filter((tile) => tile.beyond !== null).length;
  const beyond = tiles.filter((tile) => tile.beyond).length;
  const walls = limit === null || known === 0 ? "" : beyond
    ? ` ${shorten(wall, 40)} does not fit in ${si(limit, "B")} on ${beyond} of the ${known} tiles where its memory is known.`
    : ` ${shorten(wall, 40)} fits wherever its memory is known.`;
  return `${tiles.length} ${tiles.length === 1 ? "size" : "sizes"}: ${kinds.map((kind) => `${countOf(tiles, kind)} ${kind}`).join(", ")}.${walls}`;
}

/** @param {(Tile & {cell: Cell})[]} tiles @param {Choices} chosen */
function tilesTable(tiles, chosen) {
  const unit = chosen.by === "memory" ? "B" : "s";
  const best = (/** @type {Tile} */ tile) => (unit === "B" ? tile.first?.bytes : tile.first?.seconds)?.value ?? null;
  /** @type {Column<Tile & {cell: Cell}>[]} */
  const columns = [
    { name: "operation", title: "Operation", value: (tile) => titleOf(tile.cell) },
    ...WHERE_AXES.map((axis) => ({ name: axis, title: axis, value: (/** @type {Tile} */ tile) => tile.place[axis] })),
    { name: "kind", title: "Kind", value: (tile) => tile.kind },
    { name: "winner", title: "Winner", value: (tile) => tile.first?.backend ?? "" },
    { name: "level", title: "Level with", value: (tile) => tile.level.map((entry) => entry.backend).join(" ") },
    { name: "value", title: unit === "B" ? "Memory, B" : "Time, s", value: best, show: (tile) => best(tile) === null ? "" : si(Number(best(tile)), unit) },
    { name: "over", title: unit === "B" ? "Eager’s memory over its" : "Eager’s time over its", value: (tile) => tile.gain, show: (tile) => tile.gain === null ? "" : ratio(tile.gain) },
    { name: "next", title: "Next", value: (tile) => tile.next?.backend ?? "" },
    { name: "margin", title: "Margin, in its uncertainty", value: (tile) => tile.next ? tile.margin : null, show: (tile) => tile.next ? plain(Math.min(tile.margin, 9999)) : "" },
    { name: "wall", title: `Does ${shorten(chosen.wall, 40)} fit?`, value: (tile) => tile.beyond === null ? "unknown" : tile.beyond ? "no" : "yes" },
  ];
  return dataTable({ caption: "Tiles", file: "who-wins-where", columns, rows: tiles, chosen });
}
