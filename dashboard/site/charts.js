/** Whether the page carries the charts' library: it does if vl-convert was installed where it was built. */
function hasCharts() {
  return "vegaEmbed" in window;
}

/**
 * What a chart draws in each of the shows: its unit, and what it reads from a cell.
 * @typedef {{value: number | null, low: number | null, high: number | null, kind: string}} Reading
 * @type {Record<string, {unit: string, title: string, read: (cell: Cell) => Reading, say: (value: number) => string}>}
 */
const DRAWN = {
  time: {
    unit: "s", title: "Time of a call",
    read: (cell) => measuredOnly(cell.seconds, cell.seconds_low, cell.seconds_high),
    say: (value) => si(value, "s"),
  },
  speedup: {
    unit: "×", title: "Times as fast as eager",
    read: (cell) => measuredOnly(cell.speedup, cell.speedup_low, cell.speedup_high),
    say: ratio,
  },
  memory: {
    unit: "B", title: "Memory beyond the inputs",
    read: (cell) => cell.bytes !== null ? measuredOnly(cell.bytes)
      : { value: cell.predicted_bytes, low: null, high: null, kind: "predicted" },
    say: (value) => si(value, "B"),
  },
  drift: { unit: "×", title: "Drift from float64, over eager’s", read: (cell) => measuredOnly(cell.error), say: ratio },
  error: { unit: "share", title: "Error, share of the budget", read: (cell) => measuredOnly(cell.error), say: percent },
};

/** @param {number | null} value @param {number | null} low @param {number | null} high @returns {Reading} */
function measuredOnly(value, low = null, high = null) {
  return { value, low, high, kind: "measured" };
}

/** @param {string} show */
function drawn(show) {
  return DRAWN[show] ?? DRAWN.time;
}

/**
 * The chart of one series; none for a series without an axis or without numbers.
 * @param {Cell[]} cells @param {string} show @returns {HTMLElement[]}
 */
function seriesCharts(cells, show) {
  const { unit, title, read, say } = drawn(show);
  const values = cells.flatMap((cell) => {
    const reading = read(cell);
    const size = Number(cell.size.split("=")[1]);
    if (!reading.value || !Number.isFinite(size) || cell.status === "inaccurate") return [];
    return [{ ...reading, size, backend: cell.backend, text: `${cell.backend}, ${sizeHeading(cell.size)}: ${say(reading.value)}, ${reading.kind}` }];
  });
  if (values.length === 0) return [];
  const spec = structuredClone(data.charts.scaling[unit]);
  spec.encoding.x.axis = { values: distinct(values, (value) => value.size).sort((a, b) => a - b), labelOverlap: true };
  spec.encoding.x.title = cells[0].size.split("=")[0];
  return [chart(spec, values, [make("b", {}, `${title}. `), ...seriesCaption(data, cells)])];
}

/**
 * Draws `values` once the element is on the page.
 * @param {any} spec @param {{backend: string}[]} values @param {(Node | string)[]} caption @param {number} widest in pixels
 */
function chart(spec, values, caption, widest = 380) {
  const place = make("div", { class: "chart", role: "img", "aria-label": caption.map((part) => typeof part === "string" ? part : part.textContent).join("") });
  const ink = getComputedStyle(byId("terms-title")).color;
  const narrow = innerWidth < 720;
  const present = distinct(values, (value) => value.backend);
  for (const layer of spec.layer) {
    for (const channel of ["color", "fill", "shape"]) {
      if (layer.encoding[channel]) layer.encoding[channel].legend = { values: layer.encoding[channel].scale.domain.filter((/** @type {string} */ name) => present.includes(name)) };
    }
  }
  Object.assign(spec, { data: { values }, width: Math.min(widest, innerWidth - 140), height: Math.max(260, Math.min(widest, innerWidth) / 2), background: "transparent" });
  Object.assign(spec.config.axis, { labelColor: ink, titleColor: ink, domainColor: ink, tickColor: ink, gridColor: ink, gridOpacity: 0.12 });
  Object.assign(spec.config.legend, { labelColor: ink, ...(narrow ? { orient: "bottom", columns: 2, labelLimit: 100 } : {}) });
  for (const mark of ["text", "rule", "line", "point"]) spec.config[mark] = { color: ink };
  queueMicrotask(() => {
    /** @type {any} */ (window).vegaEmbed(place, spec, {
      ast: true, renderer: "svg", logLevel: 1, actions: { export: true, source: false, compiled: false, editor: false },
      downloadFileName: fileNameOf(caption),
    }).catch((/** @type {Error} */ error) => { place.textContent = `This chart could not be drawn: ${error.message}`; });
  });
  return make("figure", { class: "series" }, make("figcaption", {}, ...caption), place);
}

/** What a chart with a row for each operation calls it: in short where there is little room. @param {Cell} cell */
function rowOfOperation(cell) {
  if (innerWidth >= 720) return titleOf(cell).replace(", whole module", " (module)");
  return `${words(cell.operation)}${cell.level === "module" ? ", module" : ""}`;
}

/** Room for the names of such rows: on a narrow screen in small letters, "module" on a line of its own. @param {any} spec */
function roomForRows({ layer }) {
  const axis = innerWidth < 720 ? { labelExpr: "split(datum.label, ', ')", labelFontSize: 10, labelLineHeight: 10, labelLimit: 110 } : { labelLimit: 260 };
  for (const { encoding: { y } } of layer) Object.assign(y?.axis ?? {}, axis);
}

/** What is bold in a caption: of "<b>Time of a call.</b> Bars: ..." it is "time-of-a-call". @param {(Node | string)[]} caption */
function fileNameOf(caption) {
  const bold = caption.flatMap((part) => part instanceof HTMLElement && part.tagName === "B" ? [part.textContent ?? ""] : []);
  return (bold.join(" ") || String(caption[0])).toLowerCase().match(/[\p{L}\p{N}]+/gu)?.join("-").slice(0, 80) ?? "chart";
}

/** @returns {HTMLElement[]} */
function chartLegend() {
  return [
    "Both axes are logarithmic.", "Bars: intervals.", "Hollow points on dashed lines: predicted, not measured.",
    "Every number stands in the tables.",
  ].map((text) => make("span", {}, text));
}
