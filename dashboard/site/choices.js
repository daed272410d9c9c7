/**
 * What the reader has chosen; all of it stands in the address (after #), so that every view has a link. Beside the
 * common choices each page has its own; `at` names the element that a link leads to on its page.
 * @typedef {"place" | "commit" | "direction" | "dtype" | "theme"} CommonChoice
 * @typedef {Record<string, string>} Choices
 */

/** @type {CommonChoice[]} */
const COMMON_CHOICES = ["place", "commit", "direction", "dtype", "theme"];
const THEMES = { auto: "auto", light: "light", dark: "dark" };
const DTYPE_ORDER = ["float32", "bfloat16", "float16", "float64"];

/** @param {View} view */
function placeOf(view) {
  return [view.machine, view.env, view.threads ?? "?"].join("/");
}

/** @param {Commit} commit */
function commitId(commit) {
  return commit.hash.slice(0, 8) + (commit.dirty ? "+" : "");
}

/** Values that are their own labels. @param {string[]} values @returns {Record<string, string>} */
function plainLabels(values) {
  return Object.fromEntries(values.map((value) => [value, value || "?"]));
}

/** @param {Cell[]} cells */
function directionsOf(cells) {
  return distinct(cells, (cell) => cell.direction).sort();
}

/** @param {Cell[]} cells */
function dtypesOf(cells) {
  return distinct(cells, (cell) => cell.dtype).sort(
    (a, b) => DTYPE_ORDER.indexOf(a) - DTYPE_ORDER.indexOf(b) || a.localeCompare(b));
}

/**
 * The choices in `wanted`, each that does not exist replaced by the first that does; `missing` names those, and `labels`
 * what the page's own choices can be.
 * @param {Data} data @param {Partial<Choices>} wanted
 * @returns {Promise<{shown: Shown | null, chosen: Choices, missing: string[], labels: Record<string, Record<string, string>>}>}
 */
async function settle(data, wanted) {
  /** @type {string[]} */
  const missing = [];
  /** @param {string} name @param {string[]} known @param {boolean} follows @returns {string} */
  const pick = (name, known, follows = false) => {
    const value = wanted[name];
    if (value !== undefined && known.includes(value)) return value;
    if (value !== undefined && known.length > 0 && !follows) missing.push(`${name} ${shorten(value, 60)}`);
    return known[0] ?? "";
  };
  /** @type {Choices} */
  const chosen = { page: pick("page", pageNames()), theme: pick("theme", Object.keys(THEMES)) };
  chosen.place = pick("place", data.views.map(placeOf));
  const view = data.views.find((view) => placeOf(view) === chosen.place);
  const commits = view?.commits ?? [];
  chosen.commit = pick("commit", commits.map(commitId));
  const commit = commits.find((commit) => commitId(commit) === chosen.commit);
  if (!view || !commit) return { shown: null, chosen, missing, labels: {} };
  await loadCommit(commit);
  const cells = cellsOf(data, commit);
  chosen.direction = pick("direction", directionsOf(cells));
  chosen.dtype = pick("dtype", dtypesOf(cells));
  const shown = { view, commit, cells, chosen };
  /** @type {Record<string, Record<string, string>>} */
  const labels = {};
  for (const [name, { values, follows }] of Object.entries(PAGES[chosen.page].choices)) {
    if (values) {
      labels[name] = await values(shown);
      chosen[name] = pick(name, Object.keys(labels[name]), follows);
    } else chosen[name] = wanted[name] ?? "";
  }
  if (wanted.at) chosen.at = wanted.at;
  return { shown, chosen, missing, labels };
}

/** @param {string} address such as "#page=history&dtype=float32" @returns {Partial<Choices>} */
function fromAddress(address) {
  return Object.fromEntries(new URLSearchParams(address.slice(1)));
}

/** @param {Partial<Choices>} chosen */
function toAddress(chosen) {
  return `#${new URLSearchParams(Object.entries(chosen).flatMap(([name, value]) => value ? [[name, value]] : []))}`;
}

/**
 * The address of another view: what is commonly chosen stays, but for `change`. A commit is one of its place.
 * @param {Partial<Choices>} chosen @param {Partial<Choices>} change
 */
function leadTo(chosen, change) {
  const common = Object.fromEntries(COMMON_CHOICES.map((name) => [name, chosen[name]]));
  if ((change.place ?? common.place) !== common.place) delete common.commit;
  return toAddress({ ...common, ...change });
}

/**
 * Fills the form with what can be chosen, and with what is.
 * @param {HTMLFormElement} form @param {Data} data @param {Shown} shown @param {Record<string, Record<string, string>>} labels
 */
function fillForm(form, data, { view, cells, chosen }, labels) {
  const page = PAGES[chosen.page];
  const manyEnvs = distinct(data.views, (view) => view.machine).length < data.views.length;
  fillSelect(form, "place", Object.fromEntries(data.views.map((view) => [placeOf(view),
    shorten(view.machine, 40) + (manyEnvs ? `, ${shorten(view.env, 40)}, ${view.threads ?? "?"} threads` : "")])), chosen.place);
  fillSelect(form, "commit", Object.fromEntries(view.commits.map((commit) => [commitId(commit),
    [commitId(commit), commit.date.slice(0, 10), shorten(commit.subject, 60), commit.dirty ? "(with uncommitted changes)" : ""]
      .filter(Boolean).join("  ")])), chosen.commit);
  fillSegments(form, "direction", plainLabels(directionsOf(cells)), chosen.direction);
  fillSegments(form, "dtype", plainLabels(dtypesOf(cells)), chosen.dtype);
  for (const name of /** @type {CommonChoice[]} */ (["place", "commit", "direction", "dtype"])) {
    if (!page.uses.includes(name)) fieldOf(name).hidden = true;
  }
  const own = byId("own-choices");
  const wanted = Object.entries(page.choices).filter(([, { values }]) => values);
  if (own.dataset.of !== chosen.page) {
    own.dataset.of = chosen.page;
    own.replaceChildren(...wanted.map(([name, { legend, as }]) => as === "select"
      ? make("label", { "data-choice": name }, `${legend} `, make("select", { name }))
      : make("fieldset", { "data-choice": name }, make("legend", {}, legend))));
  }
  for (const [name, { as }] of wanted) {
    (as === "select" ? fillSelect : fillSegments)(form, name, labels[name], chosen[name]);
  }
}

/** @param {string} name @returns {HTMLElement} */
function fieldOf(name) {
  return /** @type {HTMLElement} */ (document.querySelector(`[data-choice="${name}"]`));
}

/** @param {HTMLFormElement} form @param {string} name @param {Record<string, string>} labels @param {string} chosen */
function fillSelect(form, name, labels, chosen) {
  const select = /** @type {HTMLSelectElement} */ (form.elements.namedItem(name));
  select.replaceChildren(...Object.entries(labels).map(([value, label]) => make("option", { value, dir: "auto" }, label)));
  select.value = chosen;
  select.disabled = Object.keys(labels).length === 0;
  fieldOf(name).hidden = false;
}

/**
 * Radio buttons drawn as one bar; none where there is nothing to choose. Kept as they are if nothing changes, so that
 * the focus stays.
 * @param {HTMLFormElement} form @param {string} name @param {Record<string, string>} labels @param {string} chosen
 */
function fillSegments(form, name, labels, chosen) {
  const fieldset = fieldOf(name);
  const values = Object.keys(labels);
  fieldset.hidden = values.length === 0;
  const inputs = () => /** @type {HTMLInputElement[]} */ ([...fieldset.querySelectorAll("input")]);
  if (inputs().map((input) => input.value).join() !== values.join()) {
    fieldset.querySelector(".segments")?.remove();
    fieldset.append(make("div", { class: "segments" }, ...values.map((value) =>
      make("label", {}, make("input", { type: "radio", form: form.id, name, value }), make("span", {}, labels[value])))));
  }
  for (const input of inputs()) input.checked = input.value === chosen;
}

/** What the form shows as chosen, for paper, which has no form. @param {HTMLFormElement} form */
function choicesInWords(form) {
  return [...form.querySelectorAll("[data-choice]:not([hidden])")].flatMap((field) => {
    const selected = field.querySelector("option:checked, input:checked + span")?.textContent;
    const legend = field.querySelector("legend")?.textContent ?? field.firstChild?.textContent ?? "";
    return selected ? `${legend.trim()}: ${selected}` : [];
  }).join("; ");
}

/** @param {HTMLFormElement} form @returns {Partial<Choices>} */
function fromForm(form) {
  return Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, String(value)]));
}
