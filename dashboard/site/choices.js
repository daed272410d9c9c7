/**
 * What the reader has chosen; all of it stands in the address (after #), so that every view has a link.
 * @typedef {{place: string, commit: string, direction: string, dtype: string, show: string, as: string, theme: string}} Choices
 */

const SHOWS = { time: "time", speedup: "speed-up", memory: "memory", error: "error", all: "all" };
/** Charts need the library, which the page has if vl-convert was installed where it was built. @type {Record<string, string>} */
const FORMS = "vegaEmbed" in window ? { tables: "tables", charts: "charts" } : { tables: "tables" };
const THEMES = { auto: "auto", light: "light", dark: "dark" };

/** @param {View} view */
function placeOf(view) {
  return [view.machine, view.env, view.threads ?? "?"].join("/");
}

/** @param {Commit} commit */
function commitId(commit) {
  return commit.hash.slice(0, 8) + (commit.dirty ? "+" : "");
}

/** The values each choice can take, given those made before it. @param {Data} data @param {Partial<Choices>} chosen */
function options(data, chosen) {
  const view = data.views.find((view) => placeOf(view) === chosen.place) ?? data.views[0];
  const commit = view?.commits.find((commit) => commitId(commit) === chosen.commit) ?? view?.commits[0];
  const cells = commit ? cellsOf(data, commit) : [];
  return {
    view,
    commit,
    place: data.views.map(placeOf),
    commitIds: view ? view.commits.map(commitId) : [],
    direction: distinct(cells, (cell) => cell.direction).sort(),
    dtype: distinct(cells, (cell) => cell.dtype).sort(
      (a, b) => DTYPE_ORDER.indexOf(a) - DTYPE_ORDER.indexOf(b) || a.localeCompare(b)),
  };
}

const DTYPE_ORDER = ["float32", "bfloat16", "float16", "float64"];

/**
 * The choices in `wanted`, each that does not exist replaced by the first that does; `missing` names those.
 * @param {Data} data @param {Partial<Choices>} wanted
 */
function settle(data, wanted) {
  /** @type {string[]} */
  const missing = [];
  /** @param {keyof Choices} name @param {string[]} known @returns {string} */
  const pick = (name, known) => {
    const value = wanted[name];
    if (value !== undefined && known.includes(value)) return value;
    if (value !== undefined && known.length > 0) missing.push(`${name} ${shorten(value, 60)}`);
    return known[0] ?? "";
  };
  const place = pick("place", options(data, {}).place);
  const commit = pick("commit", options(data, { place }).commitIds);
  const found = options(data, { place, commit });
  /** @type {Choices} */
  const chosen = {
    place,
    commit,
    direction: pick("direction", found.direction),
    dtype: pick("dtype", found.dtype),
    show: pick("show", Object.keys(SHOWS)),
    as: pick("as", Object.keys(FORMS)),
    theme: pick("theme", Object.keys(THEMES)),
  };
  return { chosen, missing };
}

/** @returns {Partial<Choices>} */
function fromAddress() {
  const text = location.hash.slice(1);
  return text.includes("=") ? Object.fromEntries(new URLSearchParams(text)) : {};
}

/** @param {Choices} chosen */
function toAddress(chosen) {
  return `#${new URLSearchParams(chosen)}`;
}

/**
 * Fills the form with what can be chosen, and with what is.
 * @param {HTMLFormElement} form @param {Data} data @param {Choices} chosen
 */
function fillForm(form, data, chosen) {
  const found = options(data, chosen);
  const manyEnvs = distinct(data.views, (view) => view.machine).length < data.views.length;
  fillSelect(form, "place", found.place, chosen.place, (_, at) => {
    const view = data.views[at];
    return shorten(view.machine, 40) + (manyEnvs ? `, ${shorten(view.env, 40)}, ${view.threads ?? "?"} threads` : "");
  });
  fillSelect(form, "commit", found.commitIds, chosen.commit, (id, at) => {
    const commit = /** @type {View} */ (found.view).commits[at];
    return [id, commit.date.slice(0, 10), shorten(commit.subject, 60), commit.dirty ? "(with uncommitted changes)" : ""]
      .filter(Boolean).join("  ");
  });
  fillSegments(form, "direction", Object.fromEntries(found.direction.map((name) => [name, name])), chosen.direction);
  fillSegments(form, "dtype", Object.fromEntries(found.dtype.map((name) => [name, name || "?"])), chosen.dtype);
  fillSegments(form, "show", SHOWS, chosen.show);
  fillSegments(form, "as", FORMS, chosen.as);
  fillSegments(form, "theme", THEMES, chosen.theme);
}

/**
 * @param {HTMLFormElement} form @param {string} name @param {string[]} values @param {string} chosen
 * @param {(value: string, at: number) => string} label
 */
function fillSelect(form, name, values, chosen, label) {
  const select = /** @type {HTMLSelectElement} */ (form.elements.namedItem(name));
  select.replaceChildren(...values.map((value, at) => make("option", { value, dir: "auto" }, label(value, at))));
  select.value = chosen;
  select.disabled = values.length === 0;
}

/**
 * Radio buttons drawn as one bar. Kept as they are if nothing changes, so that the focus stays.
 * @param {HTMLFormElement} form @param {string} name @param {Record<string, string>} labels @param {string} chosen
 */
function fillSegments(form, name, labels, chosen) {
  const fieldset = /** @type {HTMLElement} */ (document.querySelector(`[data-choice=${name}]`));
  const values = Object.keys(labels);
  fieldset.hidden = values.length === 0 || (name === "as" && values.length === 1);
  const inputs = () => /** @type {HTMLInputElement[]} */ ([...fieldset.querySelectorAll("input")]);
  if (inputs().map((input) => input.value).join() !== values.join()) {
    fieldset.querySelector(".segments")?.remove();
    fieldset.append(make("div", { class: "segments" }, ...values.map((value) =>
      make("label", {}, make("input", { type: "radio", form: form.id, name, value }), make("span", {}, labels[value])))));
  }
  for (const input of inputs()) input.checked = input.value === chosen;
}

/** @param {HTMLFormElement} form @returns {Partial<Choices>} */
function fromForm(form) {
  return Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, String(value)]));
}
