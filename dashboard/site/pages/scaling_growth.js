const CROSSOVERS_SAID = 6;

/** The chosen quantity over the chosen axis: in words, drawn, and as tables. @param {Shown} shown @param {Theory} theory @returns {Drawn} */
function drawGrowth(shown, theory) {
  const { axis } = shown.chosen;
  const along = seriesAlong(cellsOfOperation(shown), axis);
  if (along.length === 0) return [make("p", { class: "warning" }, "Nothing was asked of this operation along any axis. ", howToMeasureMore())];
  const quantity = QUANTITIES[shown.chosen.quantity];
  const lines = linesAlong(shown, theory);
  const heading = make("h3", {}, `${quantity.title} over ${axis}`);
  const about = make("p", { class: "quiet" }, data.operations[along[0].operation]?.words ?? "", " ", ...seriesCaption(data, along), ".");
  if (lines.length === 0) {
    return [make("section", { class: "growth" }, heading, about,
      make("p", { class: "warning" }, `No backend has a number here. ${withoutNumber(along, lines)} `, howToMeasureMore()))];
  }
  const curve = curveOf(theory, along[0], axis);
  const crossings = crossoversSaid(lines, quantity);
  const memory = shown.chosen.quantity === "memory";
  const [first, ...rest] = [
    ...growthSentences(lines, axis, quantity, curve), ...crossingSentences(lines, crossings, axis, quantity),
    ...(memory ? wallSentences(lines, axis, theory.memories) : []), ...foretoldSentences(lines, axis, memory, curve), withoutNumber(along, lines),
  ].filter(Boolean);
  return [make("section", { class: "growth" }, heading, about,
    make("div", { class: "verdict" }, make("p", {}, make("strong", {}, first)), make("ul", {}, ...rest.map((text) => make("li", {}, text)))),
    ...(hasCharts() ? [growthChart(lines, crossings, axis, quantity, theory.charts[shown.chosen.quantity])] : []),
    growthTable(lines, axis, quantity, curve),
    ...(memory ? [wallTable(lines, axis, theory.memories)] : []),
    numbersTable(lines, shown.chosen, quantity))];
}

function howToMeasureMore() {
  return make("span", {}, "To measure more: ", make("code", {}, "python -m benchmarks run --effort full"), ".");
}

/** Who has no number, by status. @param {Cell[]} along @param {Line[]} lines */
function withoutNumber(along, lines) {
  const missing = [...groupBy(along, (cell) => cell.backend)].filter(([backend]) => !lines.some((line) => line.backend === backend));
  const groups = groupBy(missing, ([, cells]) => distinct(cells, (cell) => words(cell.status)).join(" or "));
  const parts = [...groups].map(([status, cells]) => `${cells.map(([backend]) => shorten(backend, 40)).join(", ")} (${status})`);
  return parts.length ? `Without a number: ${parts.join("; ")}.` : "";
}

/** @param {Line[]} lines @param {string} axis @param {Quantity} quantity @param {Curve | undefined} curve */
function growthSentences(lines, axis, quantity, curve) {
  const sizes = measuredSizes(lines);
  if (sizes.length < 2) {
    return [sizes.length ? `Only ${axis} ${sizes[0]} was measured: how the ${quantity.noun} grows is told by two sizes or more.`
      : "Nothing was measured along this axis; what is shown is predicted."];
  }
  const theirs = quantity.theory.length ? theoryPowers(curve, sizes, quantity).map(([name, slope]) => `${name} as ${powerOf(axis, slope)}`)
    : ["at a limit of the machine it would stay level"];
  const eager = lines.find(({ backend, law }) => backend === "eager" && law);
  const best = bestLine(lines.filter(({ law }) => law), sizes[sizes.length - 1], quantity);
  return distinct([eager, best].flatMap((line) => line ? [line] : []), (line) => line).map(({ backend, law }, at) =>
    `${shorten(backend, 40)}’s ${quantity.noun} ${/** @type {PowerLaw} */ (law).slope < 0 ? "falls" : "grows"} as ${powerWithin(axis, /** @type {PowerLaw} */ (law))}${at === 0 && theirs.length ? `; ${theirs.join(", ")}` : ""}.`);
}

/** What theory says of these sizes. @param {Curve | undefined} curve @param {number[]} sizes @param {Quantity} quantity @returns {[string, number][]} */
function theoryPowers(curve, sizes, { theory }) {
  if (!curve || sizes.length < 2) return [];
  return theory.map(([name, column]) => [name, /** @type {PowerLaw} */ (powerLaw(
    sizes.map((size) => ({ size, value: curve[column][curve.sizes.indexOf(size)], low: null, high: null })), [0])).slope]);
}

/** Whose measured value at `size` is best. @param {Line[]} lines @param {number} size @param {Quantity} quantity */
function bestLine(lines, size, { more }) {
  const there = lines.flatMap((line) => line.points.filter((point) => point.size === size && point.kind === "measured").map(({ value }) => ({ line, value })));
  return there.sort((a, b) => more ? b.value - a.value : a.value - b.value)[0]?.line;
}

/** Crossovers with eager, and those that make a new leader; smallest size first. @param {Line[]} lines @param {Quantity} quantity @returns {Crossover[]} */
function crossoversSaid(lines, quantity) {
  const measured = lines.map(({ backend, points }) => ({ backend, points: points.filter(({ kind }) => kind === "measured") }));
  const all = measured.flatMap((a, at) => measured.slice(at + 1).flatMap((b) => crossovers(a.backend, a.points, b.backend, b.points, quantity.more)));
  return all.filter(({ before, after, to }) => [before, after].includes("eager") || bestLine(lines, to, quantity)?.backend === after)
    .sort((a, b) => a.size - b.size || a.after.localeCompare(b.after));
}

/** @param {Line[]} lines @param {Crossover[]} crossings @param {string} axis @param {Quantity} quantity */
function crossingSentences(lines, crossings, axis, quantity) {
  if (measuredSizes(lines).length < 2 || lines.length < 2) return [];
  if (crossings.length === 0) return ["Between the measured sizes nobody surely overtakes eager or the leader."];
  const said = crossings.slice(0, CROSSOVERS_SAID).map(({ before, after, size, from, to }) =>
    `${shorten(after, 40)} ${quantity.ahead} ${shorten(before, 40)} from ${axis} of about ${roughly(size)} on, between the measured ${from} and ${to}.`);
  return crossings.length > CROSSOVERS_SAID ? [...said, `${crossings.length - CROSSOVERS_SAID} more crossovers are ringed in the chart.`] : said;
}

/** A machine's memory, as it is sold: "16 GB". @param {number} bytes */
function sayMemory(bytes) {
  return `${bytes / 1e9}${SPACE}GB`;
}

/** Where eager meets the memories of machines. @param {Line[]} lines @param {string} axis @param {number[]} memories */
function wallSentences(lines, axis, memories) {
  const eager = lines.find(({ backend }) => backend === "eager");
  const met = eager ? memories.flatMap((bytes) => {
    const size = sizeThatReaches(eager.points, bytes);
    return size === null ? [] : [`${sayMemory(bytes)} at ${axis} of about ${roughly(size)}`];
  }) : [];
  return met.length ? [`eager needs ${met.join(", ")}; its inputs come on top (python -m benchmarks frontier counts them in).`] : [];
}

/** @param {Line[]} lines @param {string} axis @param {boolean} memory @param {Curve | undefined} curve */
function foretoldSentences(lines, axis, memory, curve) {
  const beyond = lines.filter(({ points }) => points.some(({ how }) => how.startsWith(memory ? "predicted from" : "extrapolated")));
  const last = Math.max(...beyond.flatMap(({ points }) => points.map(({ size }) => size)));
  const odd = lines.filter(({ memory }) => memory && memory.misfit > MISFIT_ALLOWED).map(({ backend }) => shorten(backend, 40));
  if (memory) {
    return [
      beyond.length ? `Hollow points, up to ${axis} ${last.toLocaleString("en")}, are predicted: so many score tensors and so many outputs, as measured at smaller sizes.` : "",
      odd.length ? `Not predicted: ${odd.join(", ")}, whose memory is no fixed number of score tensors and outputs.` : "",
    ];
  }
  if (beyond.length) return [`Hollow points, up to ${axis} ${last.toLocaleString("en")}, are extrapolated: the fitted line goes on, as long as the ends of its 95 % interval stay within a factor of ${FARTHEST}.`];
  const sizes = measuredSizes(lines);
  const farther = sizes.length > 1 && curve?.sizes.some((size) => size > sizes[sizes.length - 1]);
  return farther ? ["Nothing is extrapolated: that takes a fit through three sizes or more, and one that is sure enough."] : [];
}

/** @param {Growing} point @param {Quantity} quantity */
function sayPoint({ value, low, high, how }, { unit }) {
  return `${si(value, unit)}${low !== null && high !== null && high > low ? ` (${si(low, unit)} to ${si(high, unit)})` : ""}, ${how}`;
}

/** @param {Line[]} lines @param {Crossover[]} crossings @param {string} axis @param {Quantity} quantity @param {any} spec */
function growthChart(lines, crossings, axis, quantity, spec) {
  const values = lines.flatMap(({ backend, points }) => points.flatMap((point, at) => {
    const value = { ...point, backend, text: `${shorten(backend, 40)}, ${axis} ${point.size}: ${sayPoint(point, quantity)}` };
    const joint = point.kind === "measured" && points[at + 1]?.kind === "predicted";
    return joint ? [value, { ...value, kind: "joint", low: null, high: null }] : [value];
  }));
  const rings = crossings.map(({ before, after, size, value }) => ({
    size, value, low: null, high: null, backend: after, kind: "crossing",
    text: `${shorten(after, 40)} ${quantity.ahead} ${shorten(before, 40)} from ${axis} of about ${roughly(size)} on`,
  }));
  const own = structuredClone(spec);
  own.encoding.x.axis = { values: distinct(values, (value) => value.size).sort((a, b) => a - b), labelOverlap: true };
  own.encoding.x.title = `${axis} (${data.axes[axis] ?? axis})`;
  return chart(own, [...values, ...rings], [make("b", {}, `${quantity.title} over ${axis}. `),
    `Both axes are logarithmic. ${quantity.unit !== "B" ? "Bars: intervals of the median (Terms). " : ""}Hollow points on dashed lines: predicted, not measured. Rings: crossovers.`], 720);
}

/**
 * A small table with a heading for each row.
 * @param {string} caption @param {string[]} headings @param {string[][]} rows
 */
function smallTable(caption, headings, rows) {
  return make("figure", { class: "series small-table" }, make("figcaption", {}, make("b", {}, caption)),
    make("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": caption }, make("table", {},
      make("thead", {}, make("tr", {}, ...headings.map((text) => make("th", { scope: "col" }, text)))),
      make("tbody", {}, ...rows.map(([first, ...rest]) => make("tr", {},
        make("th", { scope: "row" }, make("bdi", {}, first)), ...rest.map((text) => make("td", {}, text))))))));
}

/** @param {Line[]} lines @param {string} axis @param {Quantity} quantity @param {Curve | undefined} curve */
function growthTable(lines, axis, quantity, curve) {
  const memory = quantity === QUANTITIES.memory;
  const theory = theoryPowers(curve, measuredSizes(lines), quantity).map(([name, slope]) =>
    [`in theory: ${name}`, powerOf(axis, slope), "", "", ...(memory ? [""] : [])]);
  const fitted = lines.map(({ backend, points, law, memory: made }) => [
    shorten(backend, 60), law ? powerOf(axis, law.slope) : "", law && law.low < law.high ? `${law.low.toFixed(2)} to ${law.high.toFixed(2)}` : "",
    points.filter(({ kind }) => kind === "measured").map(({ size }) => size).join(", "), ...(memory ? [madeOf(made)] : []),
  ]);
  return smallTable(`How the ${quantity.noun} grows with ${axis}`,
    ["", "Grows as", "95 % interval", `Measured at ${axis}`, ...(memory ? ["Made of"] : [])], [...theory, ...fitted]);
}

/** @param {MemoryLaw | null} law */
function madeOf(law) {
  if (!law) return "too few problems to tell";
  if (law.misfit > MISFIT_ALLOWED) return `neither scores nor outputs (${percent(law.misfit)} off)`;
  const parts = [[law.scores, "scores"], [law.output, "outputs"]].flatMap(([times, name]) => times ? [`${Number(times).toFixed(2)} × ${name}`] : []);
  return `${parts.join(" + ")}${law.misfit > 0.005 ? `, within ${percent(law.misfit)}` : ""}`;
}

/** The size at which each backend's memory reaches that of machines. @param {Line[]} lines @param {string} axis @param {number[]} memories */
function wallTable(lines, axis, memories) {
  return smallTable(`The ${axis} at which a call needs as much beyond its inputs (○ predicted)`,
    ["Backend", ...memories.map(sayMemory)], lines.map(({ backend, points }) => [
      shorten(backend, 60), ...memories.map((bytes) => {
        const size = sizeThatReaches(points, bytes);
        const known = points[points.length - 1];
        if (size === null) return `beyond ${known.size.toLocaleString("en")}${known.kind === "predicted" ? " ○" : ""}`;
        const predicted = points.find((point) => point.value >= bytes)?.kind === "predicted";
        return `${size <= points[0].size ? "below" : "about"} ${roughly(size)}${predicted ? " ○" : ""}`;
      })]));
}

/** Every number of the chart. @param {Line[]} lines @param {Choices} chosen @param {Quantity} quantity */
function numbersTable(lines, chosen, quantity) {
  const { axis } = chosen;
  const rows = lines.flatMap(({ backend, points }) => points.map((point) => ({ ...point, backend })));
  const inUnit = (/** @type {number | null} */ value) => value === null ? "" : si(value, quantity.unit);
  return dataTable({
    caption: `Every number of ${quantity.title.toLowerCase().replace("flop/s", "FLOP/s")} over ${axis}`, file: `scaling-${chosen.operation}-${chosen.quantity}-${axis}`, chosen, rows,
    columns: [
      { name: "backend", title: "Backend", value: (row) => row.backend, show: (row) => shorten(row.backend, 60) },
      { name: "size", title: axis, value: (row) => row.size },
      { name: "value", title: `${quantity.title} (${quantity.unit})`, value: (row) => row.value, show: (row) => inUnit(row.value) },
      { name: "low", title: "Low", value: (row) => row.low, show: (row) => inUnit(row.low) },
      { name: "high", title: "High", value: (row) => row.high, show: (row) => inUnit(row.high) },
      { name: "how", title: "How known", value: (row) => row.how },
    ],
  });
}
