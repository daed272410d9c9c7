/** The samples of one cell, all that is known of it, and how it is measured again. @param {Timed} timed @param {Trust} trust @returns {Drawn} */
function cellPart({ cell, noise }, trust) {
  const copying = make("button", { type: "button" }, "Copy");
  copying.addEventListener("click", async () => {
    copying.textContent = (await copy(cell.command)) ? "Copied" : "Select the text above and copy it";
  });
  return [
    make("h4", {}, make("bdi", {}, shorten(cell.backend, 80)), `, ${titleOf(cell)}, ${sizeHeading(cell.size)}, ${cell.dtype}, ${cell.direction}`),
    make("div", { class: "tables" },
      ...(noise?.samples ? sampleChart(cell, noise, trust) : [make("p", {}, noise ? "Its samples were left out, to keep the site small." : `The samples of the newest ${trust.index.kept} commits alone are in this site.`)]),
      make("div", { class: "known" },
        make("dl", {}, ...[...smallest(noise), ...facts(cell)].flatMap(([term, text]) => [make("dt", {}, term), make("dd", { dir: "auto", class: "long" }, text)])),
        make("p", {}, "Measure it again: ", copying),
        make("pre", {}, make("code", {}, cell.command)))),
  ];
}

/** @param {Noise | null} noise @returns {[string, string][]} */
function smallest(noise) {
  if (!noise) return [];
  return [
    ["Smallest change", [noise.by_rounds === null ? "not known by its rounds" : `${fine(noise.by_rounds)} by its rounds`,
      noise.by_history === null ? "too few commits for one by its history" : `${fine(noise.by_history)} by its history`].join("; ")],
    ...(noise.discarded ? [/** @type {[string, string]} */ (["Taken again", counted(noise.discarded, "round")])] : []),
  ];
}

/** @param {Cell} cell @param {Noise} noise @param {Trust} trust @returns {HTMLElement[]} */
function sampleChart(cell, noise, { index }) {
  const samples = noise.samples ?? [];
  const [low, middle, high] = [cell.seconds_low, Number(cell.seconds), cell.seconds_high];
  const values = samples.map((seconds, at) => ({
    order: at + 1, value: seconds / middle, low: low / middle, high: high / middle,
    round: noise.rounds[at] ?? 0, backend: `process ${(noise.processes[at] ?? 0) + 1}`,
    text: `sample ${at + 1}, round ${(noise.rounds[at] ?? 0) + 1}, process ${(noise.processes[at] ?? 0) + 1}: ${si(seconds, "s")}`,
  }));
  const rounds = groupBy(values.map((value, at) => ({ ...value, seconds: samples[at] })), ({ round, backend }) => `Round ${round + 1}, ${backend}`);
  const numbers = make("details", {}, make("summary", {}, `The ${counted(samples.length, "sample")} as numbers, in the order taken`),
    make("ul", {}, ...[...rounds].map(([name, own]) => make("li", {}, `${name}: ${own.map(({ seconds }) => si(seconds, "s")).join(", ")}`))));
  if (!hasCharts()) {
    numbers.setAttribute("open", "");
    return [numbers];
  }
  const caption = [make("b", {}, "Samples in the order taken"), make("span", { class: "quiet" }, `: over their median, ${si(middle, "s")}. Band: the median’s interval. Dotted: where a round begins.`)];
  return [make("div", { class: "sampled" }, chart(structuredClone(index.charts.samples), values, caption, 460), numbers)];
}
