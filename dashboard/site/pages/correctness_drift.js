/** What the deepest stacks say. @param {Cell[]} stacks */
function driftInWords(stacks) {
  const known = stacks.flatMap((cell) => cell.error === null ? [] : [{ cell, tensor: "", share: cell.error }]);
  const deepest = Math.max(...known.map(({ cell }) => cell.blocks ?? 0));
  const [worst] = worstOf(known.filter(({ cell }) => (cell.blocks ?? 0) === deepest));
  const wrong = known.filter(({ cell }) => cell.status !== "ok");
  if (!worst) return "";
  return `After ${deepest} stacked blocks rounding has carried ${shorten(worst.cell.backend, 60)} farthest from float64: ${ratio(worst.share)} as far as plain eager attention. `
    + (wrong.length ? `Beyond 2×, and so wrong: ${distinct(wrong, ({ cell }) => shorten(cell.backend, 60)).join(", ")}.` : "None is beyond 2×, which would be wrong.");
}

/** A chart and a table for every series of stacks. @param {Cell[]} stacks @param {Kit} kit @returns {Drawn} */
function driftOf(stacks, kit) {
  const computed = new Set(stacks.flatMap((cell) => cell.error === null ? [] : [cell.backend]));
  if (computed.size === 0) {
    return [make("p", {}, "No stack of blocks was computed here in this direction and number format. This does: ", make("code", {}, "python -m benchmarks run -b depth"))];
  }
  return [
    make("p", {}, "AlphaFold stacks 48 blocks, and each takes on the rounding of those before. The drift is how far a stack’s result is from float64, as root mean square, over how far that of eager is, on small problems."),
    make("div", { class: "tables" }, ...[...groupBy(stacks.filter((cell) => computed.has(cell.backend)), (cell) => `${cell.module} ${cell.series}`).values()].flatMap((own) => [
      ...driftChart(own, kit), seriesTable(data, own, "drift", registered)])),
  ];
}

/** @param {Cell[]} own @param {Kit} kit @returns {HTMLElement[]} */
function driftChart(own, kit) {
  const values = own.flatMap((cell) => cell.error === null || !cell.blocks ? []
    : [{ size: cell.blocks, value: cell.error, backend: cell.backend, text: `${cell.backend}, ${cell.blocks} blocks: ${ratio(cell.error)}` }]);
  if (!hasCharts() || values.length === 0) return [];
  const spec = structuredClone(kit.charts.drift);
  spec.encoding.x.axis = { values: distinct(values, (value) => value.size).sort((a, b) => a - b) };
  spec.encoding.x.title = "blocks";
  return [chart(spec, values, [make("b", {}, "Drift from float64, over eager’s, after so many blocks")])];
}
