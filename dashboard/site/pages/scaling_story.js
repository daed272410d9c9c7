const STORY_SIZE = 5120;

/** Why global attention exists: what the scores take, with it and without. @param {Theory} theory @returns {Drawn} */
function drawStory({ story, charts }) {
  const [column, global] = distinct(story, ({ backend }) => backend).map((name) =>
    /** @type {StoryPoint} */ (story.find(({ backend, size }) => backend === name && size === STORY_SIZE)).value);
  return [make("section", { class: "growth" },
    make("h3", {}, "Why global attention exists"),
    make("div", { class: "verdict" },
      make("p", {}, make("strong", {}, `At S ${STORY_SIZE.toLocaleString("en")}, R 300 and 8 heads in float32, eager column attention needs 2 × ${si(column / 2, "B")} for its scores; global attention needs 2 × ${si(global / 2, "B")}.`)),
      make("p", {}, `Twice, since plain attention holds the scores and their softmax at once. Column attention has one score for each pair of sequences, S²; global attention has one averaged query for each head, and so S scores: ${Math.round(column / global).toLocaleString("en")} times fewer. From closed forms, not measured; a backend that never holds the scores avoids both.`)),
    ...(hasCharts() ? [storyChart(story, charts.story)] : [smallTable("Bytes of two score tensors", ["", "S", "Bytes"],
      story.map(({ backend, size, value }) => [backend, String(size), si(value, "B")]))]))];
}

/** @param {StoryPoint[]} story @param {any} spec */
function storyChart(story, spec) {
  const own = structuredClone(spec);
  own.encoding.x.axis = { values: distinct(story, ({ size }) => size), labelOverlap: true };
  return chart(own, story.map((point) => ({ ...point, text: `${point.backend}, S ${point.size}: ${si(point.value, "B")}` })),
    [make("b", {}, "Two score tensors over S, at R 300 and 8 heads in float32. "), "Both axes are logarithmic. Dotted lines: the memories of machines. Hollow points: from closed forms."], 720);
}
