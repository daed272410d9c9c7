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

/** The tabs, each with an address that keeps the common choices. @param {Partial<Choices>} chosen */
function fillTabs(chosen) {
  const common = Object.fromEntries(COMMON_CHOICES.map((name) => [name, chosen[name]]));
  byId("pages").replaceChildren(...pageNames().map((name) => make("a", {
    href: toAddress({ ...common, page: name }), ...(name === chosen.page ? { "aria-current": "page" } : {}),
  }, PAGES[name].title)));
}

/** Shows one page's element and hides the others. @param {string} shown */
function turnTo(shown) {
  for (const name of pageNames()) pageElement(name).hidden = name !== shown;
}
