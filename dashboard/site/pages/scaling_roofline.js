/** @typedef {{backend: string, size: string, intensity: number, value: number, low: number, high: number, share: number | null}} UnderRoof */

/** How near backends come to what the machine can do. @param {Shown} shown @param {Theory} theory @returns {Drawn} */
function drawRoofline(shown, theory) {
  const { view, commit, chosen } = shown;
  const roof = theory.roofs[chosen.place]?.[commitId(commit)] ?? {};
  const cells = cellsOfOperation(shown);
  const heading = make("h3", {}, "The machine’s roof");
  const about = make("p", { class: "quiet" }, "A call can be no faster than its arithmetic at the rate of a matrix product, nor than its bytes at the rate of a copy: together the ",
    make("em", {}, "roofline"), ". The bytes are the least that any implementation must move: inputs and output, once each.");
  const section = (/** @type {Drawn} */ ...content) => [make("section", { class: "growth" }, heading, about, ...content)];
  if (cells.length && cells[0].level !== "core") return section(make("p", {}, "It is drawn for cores, not for whole modules: the least bytes of a module depend on what is fused."));
  const points = onceEach(cells).flatMap((cell) => underRoof(cell, theory, roof));
  const [first, ...rest] = [...roofSentences(roof), ...shareSentences(seriesAlong(cells, chosen.axis).flatMap((cell) => underRoof(cell, theory, roof)), roof), ...caveats(points, roof, view, chosen.dtype)];
  return section(
    make("div", { class: "verdict" }, make("p", {}, make("strong", {}, first)), make("ul", {}, ...rest.map((text) => make("li", {}, text)))),
    ...(hasCharts() && points.length ? [rooflineChart(points, roof, theory.charts.roofline)] : []));
}

/** @param {Cell} cell @param {Theory} theory @param {Roof} roof @returns {UnderRoof[]} */
function underRoof(cell, theory, roof) {
  const theirs = theoryOf(theory, cell);
  const { value, low, high } = QUANTITIES.rate.read(cell);
  if (!theirs || !value || !low || !high || !cell.flops || cell.status !== "ok") return [];
  const intensity = cell.flops / theirs.moved;
  const limit = roofAt(roof, intensity);
  return [{ backend: cell.backend, size: cell.size, intensity, value, low, high, share: Number.isFinite(limit) ? value / limit : null }];
}

/** The most FLOP/s at so many FLOPs a byte; infinite without a roof. @param {Roof} roof @param {number} intensity */
function roofAt({ flops = Infinity, bytes = Infinity }, intensity) {
  return Math.min(flops, bytes * intensity);
}

/** @param {Roof} roof */
function roofSentences({ flops, bytes }) {
  const missing = "was not measured with this commit: its record is older than that measurement, or made by another instrument.";
  if (!flops && !bytes) return [`The roof is missing: the machine’s own rate ${missing}`];
  return [
    flops ? `Here a matrix product (512 × 512, float32) reaches ${si(flops, "FLOP/s")}${bytes ? `, and a copy of 64 MB ${si(bytes, "B/s")}` : ""}.`
      : `Here a copy of 64 MB reaches ${si(/** @type {number} */ (bytes), "B/s")}.`,
    flops ? "" : `The rate of a matrix product ${missing}`,
    bytes ? "" : `The rate of a copy ${missing}`,
  ].filter(Boolean);
}

/** Who reaches how much of the roof, at the largest size. @param {UnderRoof[]} points of one series @param {Roof} roof */
function shareSentences(points, roof) {
  if (points.length === 0) return ["No core was timed here."];
  const [size] = distinct(points, (point) => point.size).sort(bySize).slice(-1);
  const there = points.filter((point) => point.size === size).sort((a, b) => b.value - a.value);
  const at = sizeHeading(size);
  if (there[0].share === null) return [`At ${at}: ${there.map(({ backend, value }) => `${shorten(backend, 40)} ${si(value, "FLOP/s")}`).join(", ")}.`];
  const { intensity } = there[0];
  const byCopy = (roof.bytes ?? Infinity) * intensity < (roof.flops ?? Infinity);
  const limit = byCopy ? "what the copy’s rate allows" : "the matrix product’s rate";
  const [{ backend, share, value }, ...others] = there;
  return [
    `${shorten(backend, 40)} reaches ${percent(/** @type {number} */ (share))} of ${limit} at ${at} (${si(value, "FLOP/s")})${others.length ? "; " : ""}${others
      .map((other) => `${shorten(other.backend, 40)} ${percent(/** @type {number} */ (other.share))}`).join(", ")}.`,
    `A call at ${at} does ${plain(Number(intensity.toPrecision(3)))} FLOPs for each byte that it must move: the limit is ${limit}, ${si(roofAt(roof, intensity), "FLOP/s")}.`,
  ];
}

/** What the roof does not say. @param {UnderRoof[]} points @param {Roof} roof @param {View} view @param {string} dtype */
function caveats(points, roof, view, dtype) {
  const above = points.filter(({ share }) => share !== null && share > 1).length;
  return [
    roof.flops && dtype !== "float32" ? `The product is of float32 numbers: of ${dtype} it says nothing, and what is faster than it may lie above the roof.` : "",
    roof.flops && view.device === "cuda" ? "A product of 512 × 512 is too small to fill a GPU: its rate is below the device’s." : "",
    above ? `${above} of ${points.length} points lie above the roof: what stays in the caches moves faster than a copy of 64 MB.` : "",
  ].filter(Boolean);
}

/** @param {UnderRoof[]} points @param {Roof} roof @param {any} spec */
function rooflineChart(points, roof, spec) {
  const values = points.map((point) => ({
    ...point, kind: "measured",
    text: `${shorten(point.backend, 40)}, ${sizeHeading(point.size)}: ${si(point.value, "FLOP/s")}${point.share === null ? "" : `, ${percent(point.share)} of the roof`}`,
  }));
  return chart(structuredClone(spec), [...roofLine(points, roof), ...values], [make("b", {}, "FLOP/s over FLOPs for each byte that must move. "),
    "Both axes are logarithmic. The line is the machine’s roof; every point is a measured call, of every size of this operation."], 720);
}

/** The roof from the left end to the right, with its corner. @param {UnderRoof[]} points @param {Roof} roof */
function roofLine(points, roof) {
  const { flops, bytes } = roof;
  if (!flops && !bytes) return [];
  const corner = flops && bytes ? [flops / bytes] : [];
  const all = [...points.map(({ intensity }) => intensity), ...corner.flatMap((at) => [at / 4, at, at * 4])];
  const ends = [Math.min(...all), ...corner, Math.max(...all)];
  return ends.map((intensity, at) => {
    const value = roofAt(roof, intensity);
    return {
      intensity, value, backend: "", kind: "roof", text: `the roof: ${si(value, "FLOP/s")}`,
      ...(flops && at === ends.length - 1 ? { name: `matrix product: ${si(flops, "FLOP/s")}` } : {}),
      ...(bytes && at === 0 ? { slope: `copy: ${si(bytes, "B/s")}` } : {}),
    };
  });
}
