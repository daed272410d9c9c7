/**
 * A page of the site. `uses` names the common choices that change it; `choices` are its own; `draw` returns what it shows.
 * @typedef {{view: View, commit: Commit, cells: Cell[], chosen: Choices}} Shown
 * @typedef {{legend: string, as?: "segments" | "select", values: ((shown: Shown) => Record<string, string> | Promise<Record<string, string>>) | null, follows?: boolean}} OwnChoice
 *   `values` are what can be chosen, each with its label (the first is what is chosen at first); null: any text, and no
 *   field in the form, such as a table's filter; `follows`: what can no longer be chosen gives way without a word.
 * @typedef {{title: string, about: string, uses: CommonChoice[], choices: Record<string, OwnChoice>, draw: (shown: Shown) => Drawn | Promise<Drawn>}} Page
 * @typedef {(Node | string)[]} Drawn
 */

const PAGE_ORDER = ["verdict", "where", "scaling", "history", "compare", "changes", "correctness", "trust"];

/** @type {Record<string, Page>} */
const PAGES = {};

/** Makes a page known; its name stands in the address. @param {string} name @param {Page} page */
function addPage(name, page) {
  PAGES[name] = page;
}

/** The pages there are, in the order of their tabs. */
function pageNames() {
  return PAGE_ORDER.filter((name) => name in PAGES);
}

/** A page's element: written in the template, or made here. @param {string} name @returns {HTMLElement} */
function pageElement(name) {
  const known = document.querySelector(`[data-page="${name}"]`);
  if (known instanceof HTMLElement) return known;
  const { title, about } = PAGES[name];
  const element = make("section", { "data-page": name, "aria-labelledby": `${name}-title` },
    make("h2", { id: `${name}-title`, tabindex: "-1" }, title), make("p", {}, about), make("div", { class: "content" }));
  byId("terms").before(element);
  return element;
}

/** The tabs; they stay as they are, so that the focus stays. @param {Partial<Choices>} chosen */
function fillTabs(chosen) {
  const tabs = byId("pages");
  if (tabs.childElementCount === 0) tabs.append(...pageNames().map((name) => make("a", { "data-leads": toAddress({ page: name }) }, PAGES[name].title)));
  for (const [at, name] of pageNames().entries()) {
    if (name === chosen.page) tabs.children[at].setAttribute("aria-current", "page");
    else tabs.children[at].removeAttribute("aria-current");
  }
  keepChoices(chosen);
}

/** Links that were written before anything was chosen lead to what is chosen now. @param {Partial<Choices>} chosen */
function keepChoices(chosen) {
  for (const link of document.querySelectorAll("a[data-leads]")) {
    link.setAttribute("href", leadTo(chosen, fromAddress(link.getAttribute("data-leads") ?? "")));
  }
}

/** Brings an element into view, marks and focuses it; what is closed is opened. @param {HTMLElement} element */
function arriveAt(element) {
  for (const left of document.querySelectorAll("[aria-current=location]")) left.removeAttribute("aria-current");
  element.setAttribute("aria-current", "location");
  const cell = element.matches("button.cell");
  element.scrollIntoView({ block: cell ? "center" : "start", inline: "center" });
  if (cell) details.open(element, true);
  if (element instanceof HTMLDetailsElement) element.open = true;
  const target = cell ? element : element.querySelector("summary, [tabindex]");
  if (target instanceof HTMLElement) target.focus({ preventScroll: true });
}

/** Shows one page's element and hides the others. @param {string} shown */
function turnTo(shown) {
  for (const name of pageNames()) pageElement(name).hidden = name !== shown;
}
