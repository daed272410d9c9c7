const form = /** @type {HTMLFormElement} */ (byId("choices"));
let turn = 0;
/** @type {Partial<Choices>} */
let last = {};

/** Draws the page for `wanted`, once what it needs is loaded; of two calls the later wins. @param {Partial<Choices>} wanted */
async function draw(wanted) {
  turn += 1;
  const mine = turn;
  byId("main").setAttribute("aria-busy", "true");
  try {
    const { shown, chosen, missing, labels } = await settle(data, wanted);
    if (mine !== turn) return chosen;
    document.documentElement.dataset.theme = chosen.theme; // first, for charts ask for its ink
    const content = shown ? await PAGES[chosen.page].draw(shown) : [];
    if (mine !== turn) return chosen;
    last = chosen;
    document.title = `AxialBench: ${PAGES[chosen.page].title}`;
    fillSegments(form, "theme", THEMES, chosen.theme);
    say(missing.length ? `Not in these results: ${missing.join(", ")}. Showing what is.` : "");
    if (shown) {
      fillTabs(chosen);
      fillForm(form, data, shown, labels);
      byId("printed").textContent = choicesInWords(form);
      turnTo(chosen.page);
      if (chosen.page !== "verdict") byId("measured").replaceChildren(...measured(shown.view, shown.commit));
      pageElement(chosen.page).querySelector(".content")?.replaceChildren(...content);
    }
    return chosen;
  } catch (error) {
    if (mine === turn) {
      say(`This could not be shown: ${error instanceof Error ? error.message : error}`);
      fillTabs({ ...last, ...wanted });
    }
    return wanted;
  } finally {
    if (mine === turn) byId("main").removeAttribute("aria-busy");
  }
}

/** @param {string} text */
function say(text) {
  byId("notice").textContent = text;
}

/** What is chosen now, the page included. @returns {Partial<Choices>} */
function chosenNow() {
  return { ...last, ...fromForm(form) };
}

form.addEventListener("change", choose);
byId("theme").addEventListener("change", choose);

/** @param {Event} event */
async function choose(event) {
  const wanted = chosenNow();
  delete wanted.at;
  if (event.target instanceof HTMLSelectElement && event.target.name === "place") delete wanted.commit;
  history.pushState({ seen: true }, "", toAddress(await draw(wanted)));
}

form.addEventListener("submit", (event) => event.preventDefault());
addEventListener("popstate", follow);

/** Shows what the address says, and brings what it leads to into view; a view that was left is come back to as it was. */
async function follow() {
  const before = last.page;
  const known = history.state?.seen;
  details.close(false);
  const { page, at } = await draw(fromAddress(location.hash));
  history.replaceState({ seen: true }, "");
  const target = at ? targetOf(/** @type {string} */ (page), at) : null;
  if (target) arriveAt(target);
  else if (at) say(`Not on this page: ${shorten(at, 120)}.`);
  else if (before && before !== page && !known) turnedTo(/** @type {string} */ (page));
}

/** The element, or the cell, that is called so. @param {string} page @param {string} at @returns {HTMLElement | null} */
function targetOf(page, at) {
  return document.getElementById(at) ?? pageElement(page).querySelector(`[data-cell="${CSS.escape(at)}"]`);
}

/** A new page begins at its top; a reader who was among the tabs stays there. @param {string} page */
function turnedTo(page) {
  scrollTo(0, 0);
  if (!byId("pages").contains(document.activeElement)) byId(`${page}-title`).focus({ preventScroll: true });
}
byId("skip").addEventListener("click", (event) => {
  event.preventDefault();
  byId(`${last.page}-title`).focus();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw(chosenNow()));
follow();
