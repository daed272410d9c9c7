/**
 * A table of one series: backends down, sizes across.
 * @param {Data} data @param {Cell[]} cells of one series, dtype and direction @param {string} show
 * @param {(cell: Cell) => string} nameOf registers a cell and returns its key
 */
function seriesTable(data, cells, show, nameOf) {
  if (cells[0].size === "") show = "compiling";
  const { sizes, left } = foldNotRun(cells);
  const rows = tableRows(cells, sizes);
  const caption = [...(show === "drift" ? [make("b", {}, "Drift from float64, over eager’s. ")] : []), ...seriesCaption(data, cells)];
  const table = make("table", {},
    make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "Backend"),
      ...sizes.map((size) => make("th", { scope: "col" }, sizeHeading(size))))),
    make("tbody", {}, ...rows.map(({ backends, own }) => tableRow(backends, own, sizes, cells, show, nameOf))));
  const first = table.querySelector(".cell");
  if (first) first.setAttribute("tabindex", "0");
  return make("figure", { class: "series" },
    make("figcaption", {}, ...caption),
    ...(sizes.length ? [make("div", { class: "scroll", role: "region", "aria-label": caption.map((part) => part.textContent).join("") }, table)] : []),
    ...left.map(([reason, names]) => make("p", { class: "left" }, make("b", {}, `${names.map(sizeHeading).join(", ")}: `), `not run (${reason}).`)));
}

/**
 * Sizes worth a column, and those that were not run for any backend that could, by the reason.
 * @param {Cell[]} cells @returns {{sizes: string[], left: [string, string[]][]}}
 */
function foldNotRun(cells) {
  /** @type {Map<string, string[]>} */
  const left = new Map();
  const sizes = distinct(cells, (cell) => cell.size).sort(bySize).filter((size) => {
    const there = cells.filter((cell) => cell.size === size);
    const able = there.filter((cell) => !["unsupported", "absent"].includes(cell.status));
    if (able.length === 0 || able.some((cell) => cell.status !== "not_run")) return true;
    const reason = distinct(able, (cell) => cell.reason).map((text) => shorten(text, 200)).join("; ");
    left.set(reason, [...(left.get(reason) ?? []), size]);
    return false;
  });
  return { sizes, left: [...left] };
}

/**
 * Fastest first. Backends without any number that all give the same reason share the last rows.
 * @param {Cell[]} cells @param {string[]} sizes @returns {{backends: string[], own: Cell[]}[]}
 */
function tableRows(cells, sizes) {
  const rows = [...groupBy(cells, (cell) => cell.backend)].sort(
    (a, b) => rank(a[1], cells) - rank(b[1], cells) || a[0].localeCompare(b[0]));
  return [...groupBy(rows, ([backend, own]) => {
    const reasons = sizes.map((size) => emptyKey(own.find((cell) => cell.size === size)));
    return reasons.every(Boolean) ? JSON.stringify(reasons) : backend;
  }).values()].map((alike) => ({ backends: alike.map(([backend]) => backend), own: alike.flatMap(([, own]) => own) }));
}

/** "R=256" is "R 256". @param {string} size */
function sizeHeading(size) {
  return size.replaceAll("=", " ") || "once";
}

/**
 * Where a backend stands in its table: fastest first, those without a time last.
 * @param {Cell[]} own @param {Cell[]} all
 */
function rank(own, all) {
  let sum = 0;
  let timed = 0;
  for (const cell of own) {
    if (cell.seconds === null || cell.status !== "ok") continue;
    const fastest = all.find((other) => other.size === cell.size && other.standing === "fastest");
    sum += Math.log(cell.seconds / (fastest?.seconds ?? cell.seconds));
    timed += 1;
  }
  const sizes = distinct(all, (cell) => cell.size).length;
  return timed ? sum / timed + (sizes - timed) * 2 : 1e3;
}

/** What changes in this series, and what does not. @param {Data} data @param {Cell[]} cells @returns {HTMLElement[]} */
function seriesCaption(data, cells) {
  const axes = /** @type {const} */ (["S", "R", "T", "N_head", "c", "B"]);
  if (cells[0].size === "") return [make("b", {}, "Compiling"), make("span", { class: "quiet" }, ": the first call beyond a warm one, in no other time")];
  const varied = distinct(cells[0].size.split(", "), (part) => part.split("=")[0]);
  const names = varied.filter((name) => name in data.axes);
  const fixed = axes
    .filter((axis) => !varied.includes(axis) && cells[0][axis] !== null && !(axis === "B" && cells[0].B === 1))
    .map((axis) => `${axis} ${cells[0][axis]}`);
  if (cells[0].mask && cells[0].mask !== "none") fixed.push(`mask ${cells[0].mask}`);
  return [
    make("b", {}, names.length ? `Over ${names.map((name) => `${name}, ${data.axes[name]}`).join("; ")}` : cells[0].series),
    make("span", { class: "quiet" }, fixed.length ? `: ${fixed.join(", ")}` : ""),
  ];
}

/**
 * @param {string[]} backends @param {Cell[]} own @param {string[]} sizes @param {Cell[]} all @param {string} show
 * @param {(cell: Cell) => string} nameOf
 */
function tableRow(backends, own, sizes, all, show, nameOf) {
  const row = make("tr", {}, make("th", { scope: "row" },
    ...backends.map((backend, at) => make("bdi", {}, ...breakable(shorten(backend, 60)), at < backends.length - 1 ? ", " : "")),
    ...(backends[0] === "eager" ? [make("small", {}, "yardstick")] : [])));
  const bySizes = sizes.map((size) => own.find((cell) => cell.size === size));
  for (let at = 0; at < sizes.length;) {
    const cell = bySizes[at];
    const why = emptyKey(cell);
    let span = 1;
    while (why && at + span < sizes.length && emptyKey(bySizes[at + span]) === why) span += 1;
    const alike = sizes.slice(at, at + span);
    row.append(why ? emptyCell(own.filter((cell) => alike.includes(cell.size)), span, alike, backends.join(", "), nameOf)
      : fullCell(/** @type {Cell} */ (cell), all, show, nameOf));
    at += span;
  }
  return row;
}

/** A name that may be broken after its underscores. @param {string} name @returns {(Node | string)[]} */
function breakable(name) {
  return name.split(/(?<=_)/).flatMap((part) => [part, make("wbr")]);
}

/** Empty cells with the same key are drawn as one; "" for a cell with a number. @param {Cell | undefined} cell */
function emptyKey(cell) {
  if (!cell) return "not selected";
  if (cell.level === "stack" && cell.error !== null) return "";
  return cell.seconds === null ? `${cell.status}: ${cell.reason}` : "";
}

/**
 * One place in a table for `cells` without a number, all for one reason; none if they were not selected.
 * @param {Cell[]} cells @param {number} span @param {string[]} sizes @param {string} backend their names
 * @param {(cell: Cell) => string} nameOf
 */
function emptyCell(cells, span, sizes, backend, nameOf) {
  /** @type {Cell | undefined} */
  const cell = cells[0];
  const td = make("td", { class: "empty", colspan: String(span) });
  const status = cell ? words(cell.status) : "not selected";
  const reason = cell ? cell.reason : "the effort or a selection left it out, and the journal does not say which";
  td.append(make("button", { class: "cell", type: "button", tabindex: "-1", ...(cell ? { "data-cell": nameOf({ ...cell, backend, heading: sizes.map(sizeHeading).join(" and "), command: commandOf(cells) }) } : {}) },
    make("span", { class: "visually-hidden" }, `${shorten(backend, 60)}, ${sizes.map(sizeHeading).join(" and ")}: `),
    make("span", { class: "status" }, status),
    make("span", { class: "reason", dir: "auto" }, shorten(reason, 300))));
  return td;
}

/** @param {Cell} cell @param {Cell[]} all @param {string} show @param {(cell: Cell) => string} nameOf */
function fullCell(cell, all, show, nameOf) {
  const there = all.filter((other) => other.size === cell.size);
  const eager = there.find((other) => other.backend === "eager");
  const times = cell.bytes && eager?.bytes ? eager.bytes / cell.bytes : null;
  const least = cell.bytes !== null && there.every((other) => other.bytes === null || other.bytes >= /** @type {number} */ (cell.bytes));
  const { lines, top, mark, advantage } = shown(cell, show, times, least);
  const wrong = cell.status !== "ok";
  const showsTime = ["time", "speedup", "all"].includes(show);
  const td = make("td", {});
  if (wrong) td.classList.add("wrong");
  if (top && !wrong) td.classList.add("top");
  if (advantage !== null && !wrong) {
    const strength = Math.min(Math.abs(Math.log2(advantage)) / 4, 1);
    td.classList.add(advantage >= 1 ? "faster" : "slower");
    td.style.setProperty("--tint", `${Math.round(strength * 55)}%`);
  }
  const [first, ...rest] = lines;
  td.append(make("button", { class: `cell${cell.disturbed && showsTime ? " disturbed" : ""}`, type: "button", tabindex: "-1", "data-cell": nameOf(cell) },
    make("span", { class: "visually-hidden" }, `${shorten(cell.backend, 60)}, ${sizeHeading(cell.size)}: `),
    ...(wrong ? [make("span", { class: "status" }, words(cell.status))] : []),
    make("span", { class: "first" }, ...(mark && !wrong ? markOf(mark) : []), first),
    ...rest.map((line) => make("span", { class: "second" }, line))));
  return td;
}

/** A sign for the eye and its word for the ear. @param {string} mark */
function markOf(mark) {
  const sign = mark === "level" ? "≈" : "★";
  return [make("b", { class: "mark", "aria-hidden": "true" }, `${sign} `), make("b", { class: "visually-hidden" }, `${mark}: `)];
}

/**
 * What a cell says in one of the shows: its lines, whether it is the best of its column, and by what it is coloured.
 * @param {Cell} cell @param {string} show @param {number | null} times eager's bytes over this cell's
 * @param {boolean} least @returns {{lines: string[], top: boolean, mark: string, advantage: number | null}}
 */
function shown(cell, show, times, least) {
  if (show === "drift") return { lines: [ratio(/** @type {number} */ (cell.error)), worstTensor(cell)], top: false, mark: "", advantage: null };
  const time = si(/** @type {number} */ (cell.seconds), "s");
  const speed = cell.speedup === null ? "" : `${ratio(cell.speedup)} eager`;
  const memory = cell.bytes === null ? "memory unknown" : si(cell.bytes, "B");
  if (show === "compiling") return { lines: [cell.compile_seconds === null ? "unknown" : si(cell.compile_seconds, "s")], top: false, mark: "", advantage: null };
  const error = cell.error === null ? "error unknown" : `${percent(cell.error)} of budget`;
  const fastest = { top: cell.standing === "fastest", mark: cell.standing };
  switch (show) {
    case "memory":
      return { lines: [memory, times === null ? "" : lessOrMore(times)], top: least, mark: least ? "least" : "", advantage: times };
    case "error":
      return { lines: [error, worstTensor(cell)], top: false, mark: "", advantage: null };
    case "speedup":
      return { lines: [cell.speedup === null ? "no eager here" : ratio(cell.speedup), interval(cell)], ...fastest, advantage: cell.speedup };
    case "all":
      return { lines: [time, speed, memory + (least ? " ★" : ""), error], ...fastest, advantage: cell.speedup };
    default:
      return { lines: [time, speed], ...fastest, advantage: cell.speedup };
  }
}

/** @param {Cell} cell */
function interval(cell) {
  if (cell.speedup === null) return "";
  return cell.backend === "eager" ? "by definition" : `${ratio(cell.speedup_low)} to ${ratio(cell.speedup_high)}`;
}

/** The tensor nearest to its budget. @param {Cell} cell */
function worstTensor(cell) {
  let worst = "";
  let share = -1;
  for (const [name, error, budget] of cell.errors) {
    const own = error === null || !budget ? Infinity : error / budget;
    if (own > share) [worst, share] = [name, own];
  }
  return worst && cell.errors.length > 1 ? `worst: ${worst}` : "";
}

/** Arrow keys, Home and End move from cell to cell. @param {KeyboardEvent} event */
function moveBetweenCells(event) {
  const from = event.target instanceof Element ? event.target.closest("button.cell") : null;
  const table = from?.closest("table");
  if (!from || !table) return;
  const rows = [...table.querySelectorAll("tbody tr")].map((row) => [...row.querySelectorAll("button.cell")]);
  const y = rows.findIndex((row) => row.includes(from));
  const x = rows[y].indexOf(from);
  /** @type {Record<string, Element | undefined>} */
  const targets = {
    ArrowRight: rows[y][x + 1],
    ArrowLeft: rows[y][x - 1],
    ArrowDown: rows[y + 1]?.[Math.min(x, rows[y + 1].length - 1)],
    ArrowUp: rows[y - 1]?.[Math.min(x, rows[y - 1].length - 1)],
    Home: rows[y][0],
    End: rows[y][rows[y].length - 1],
  };
  if (!(event.key in targets)) return;
  event.preventDefault();
  const to = targets[event.key];
  if (!(to instanceof HTMLElement)) return;
  for (const cell of table.querySelectorAll("button.cell[tabindex='0']")) cell.setAttribute("tabindex", "-1");
  to.setAttribute("tabindex", "0");
  to.focus();
}
