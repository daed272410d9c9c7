const WINNERS = { time: "fastest", memory: "least memory", within: "fastest" };

/**
 * One operation's map: a table whose tiles are buttons, and beside it what stands behind the tile looked at.
 * @param {Tile[]} tiles @param {{down: string | null, across: string}} axes @param {Rules} rules
 * @param {Record<string, string>} colours @param {{caption: Drawn, links: (tile: Tile) => HTMLElement[]}} about @returns {HTMLElement}
 */
function tileMap(tiles, { down, across }, rules, colours, { caption, links }) {
  const rows = [...groupBy(tiles, (tile) => String(down && tile.place[down])).values()];
  const panel = make("div", { class: "behind" });
  let kept = tiles.find((tile) => tile.kind === "measured") ?? tiles[0];
  const look = (/** @type {Tile} */ tile) => panel.replaceChildren(...behindTile(tile, rules, links(tile)));
  const table = make("table", { class: "tiles" },
    make("thead", {}, make("tr", {},
      ...(down ? [make("th", { scope: "col" }, `${down} ↓ ${across} →`)] : []),
      ...rows[0].map((tile) => make("th", { scope: "col" }, `${across} ${tile.place[across]}`)))),
    make("tbody", {}, ...rows.map((row, y) => make("tr", {},
      ...(down ? [make("th", { scope: "row" }, `${down} ${row[0].place[down]}`)] : []),
      ...row.map((tile, x) => {
        const td = tileCell(tile, rules, colours, tile === kept);
        if (tile.beyond && row[x - 1]?.beyond === false) td.classList.add("wall-left");
        if (tile.beyond && rows[y - 1]?.[x]?.beyond === false) td.classList.add("wall-top");
        const keep = () => { kept = tile; look(tile); };
        td.addEventListener("pointerenter", () => look(tile));
        td.addEventListener("focusin", keep);
        td.addEventListener("click", keep);
        return td;
      })))));
  table.addEventListener("pointerleave", () => look(kept));
  look(kept);
  return make("figure", { class: "where-map" },
    make("figcaption", {}, ...caption),
    make("div", { class: "scroll", role: "region", "aria-label": caption.map((part) => typeof part === "string" ? part : part.textContent).join("") }, table),
    panel);
}

/** @param {Tile} tile @param {Rules} rules @param {Record<string, string>} colours @param {boolean} reachable by the Tab key */
function tileCell(tile, rules, colours, reachable) {
  const td = make("td", { class: "tile", "data-kind": tile.kind });
  const { lines, tint } = tileFace(tile, rules);
  td.style.setProperty("--winner", colours[tile.first?.backend ?? ""] ?? "transparent");
  td.style.setProperty("--tint", `${tint}%`);
  const [name, ...rest] = lines;
  td.append(make("button", { class: "cell", type: "button", tabindex: reachable ? "0" : "-1" },
    make("span", { class: "first", dir: "auto" }, ...breakable(name)),
    ...rest.map((line) => make("span", { class: "second" }, line)),
    make("span", { class: "visually-hidden" }, `. ${tileSentence(tile, rules)}`)));
  return td;
}

/** What a tile says, and how strong its colour is. @param {Tile} tile @param {Rules} rules @returns {{lines: string[], tint: number}} */
function tileFace({ first, level, kind, margin, gain, gainKind, entries }, { by }) {
  if (!first) return { lines: [kind], tint: 0 };
  const names = [first, ...level].map((entry) => shorten(entry.backend, 24));
  const over = gain === null ? withoutEager(entries)
    : (gainKind === "predicted" ? "≈ " : "") + (by === "memory" ? lessOrMore(gain).replace("as eager", "as much") : ratio(gain));
  const strength = 18 + 34 * Math.min(Math.log2(Math.max(margin, 1)) / 3, 1);
  return {
    lines: [level.length ? `level: ${names.slice(0, 3).join(", ")}${names.length > 3 ? ", …" : ""}` : names[0],
      first.backend === "eager" && !level.length ? "the yardstick" : over, ...(kind === "predicted" ? [kind] : [])],
    tint: level.length ? 0 : Math.round(strength * (kind === "predicted" ? 0.55 : 1)),
  };
}

/** Why there is no speed-up over eager. @param {Entry[]} entries */
function withoutEager(entries) {
  const eager = entries.find((entry) => entry.backend === "eager");
  return eager?.state === "no room" ? "eager: no room" : "eager not known";
}

/** @param {Place} place */
function placeWords(place) {
  return WHERE_AXES.flatMap((axis) => place[axis] === null ? [] : [`${axis} ${place[axis]}`]).join(", ");
}

/** A tile in one sentence. @param {Tile} tile @param {Rules} rules */
function tileSentence({ place, first, level, next, kind, margin, gain, beyond }, { by, wall, limit }) {
  const at = `${placeWords(place)}, ${kind}`;
  const walled = beyond && limit !== null ? ` ${shorten(wall, 40)} does not fit in ${si(limit, "B")} here.` : "";
  if (!first) return `${at}.${walled}`;
  const names = level.map((entry) => shorten(entry.backend, 40));
  const who = shorten(first.backend, 40);
  const lead = names.length ? `${who} is level with ${names.join(" and ")}`
    : next ? `${who}: ${WINNERS[/** @type {"time"} */ (by)]}, before ${shorten(next.backend, 40)} by ${marginWords(margin)} the uncertainty`
      : `${who} is the only one that runs`;
  const over = gain === null || first.backend === "eager" ? "" : by === "memory" ? `, ${lessOrMore(gain)}${gain === 1 ? "" : " than eager"}` : `, ${ratio(gain)} as fast as eager`;
  return `${at}: ${lead}${over}.${walled}`;
}

/** @param {number} margin */
function marginWords(margin) {
  return margin > 99 ? "more than 99 times" : `${plain(Number(margin.toPrecision(2)))} times`;
}

/** All backends of one tile, the best first, with a reason for each that has no number. @param {Tile} tile @param {Rules} rules @param {HTMLElement[]} links @returns {HTMLElement[]} */
function behindTile(tile, rules, links) {
  const pick = (/** @type {Entry} */ entry) => entry.state !== "runs" ? Infinity : (rules.by === "memory" ? entry.bytes : entry.seconds)?.value ?? Infinity;
  const running = tile.entries.filter((entry) => entry.state === "runs").sort((a, b) => pick(a) - pick(b));
  const reasons = groupBy(tile.entries.filter((entry) => entry.state !== "runs"), (entry) => entry.why);
  return [
    make("p", {}, make("strong", {}, tileSentence(tile, rules))),
    ...(running.length ? [make("table", {},
      make("thead", {}, make("tr", {}, ...["Backend", "Time", "Memory"].map((name) => make("th", { scope: "col" }, name)))),
      make("tbody", {}, ...running.map((entry) => make("tr", {},
        make("th", { scope: "row" }, make("bdi", {}, ...breakable(shorten(entry.backend, 60)))),
        make("td", {}, entry.cell && entry.seconds?.kind === "measured" ? detailsButton(entry.cell, estimateWords(entry.seconds, "s")) : estimateWords(entry.seconds, "s")),
        make("td", {}, estimateWords(entry.bytes, "B"))))))] : []),
    ...(reasons.size ? [make("details", {}, make("summary", {}, `Without a number, and why: ${tile.entries.length - running.length}`),
      ...[...reasons].map(([why, entries]) => make("p", { class: "left", dir: "auto" },
        make("b", {}, `${entries.map((entry) => shorten(entry.backend, 60)).join(", ")}: `), shorten(why, 240))))] : []),
    make("p", { class: "left links" }, ...links),
  ];
}

/** Opens the card with all that is known of `cell`. @param {Cell} cell @param {string} text */
function detailsButton(cell, text) {
  const name = `where-${cellsOnPage.size}`;
  cellsOnPage.set(name, cell);
  return make("button", { class: "cell", type: "button", "data-cell": name }, text);
}

/** @param {Estimate | null} estimate @param {string} unit */
function estimateWords(estimate, unit) {
  if (!estimate) return "unknown";
  return estimate.kind === "measured" ? si(estimate.value, unit) : `≈ ${si(estimate.value, unit)}`;
}
