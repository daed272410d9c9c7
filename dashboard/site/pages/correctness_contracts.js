/** The answer's sign, and its word for the ear. @param {boolean | null} ok */
function signOf(ok) {
  return ok === null ? ["–", "not tried"] : ok ? ["✓", "as declared"] : ["✗", "contradicted"];
}

/** Backends that were run, each its own label. @param {Answer[]} answers */
function backendsAsked(answers) {
  return Object.fromEntries(distinct(answers.filter(({ question }) => question !== null), ({ backend }) => backend).map((name) => [name, shorten(name, 60)]));
}

/** @param {KitFile<Answer>} contracts */
function contractsInWords({ rows }) {
  const asked = rows.filter(({ question }) => question !== null);
  const wrong = asked.filter(({ ok }) => ok === false);
  const untried = asked.filter(({ ok }) => ok === null).length;
  if (asked.length === 0) return "";
  return `${counted(Object.keys(backendsAsked(rows)).length, "backend")} were asked ${counted(distinct(asked, ({ question }) => question).length, "question")} each, masked rows and determinism among them: `
    + (wrong.length ? `${counted(wrong.length, "answer")} ${wrong.length > 1 ? "contradict" : "contradicts"} what is declared (${distinct(wrong, ({ backend }) => shorten(backend, 60)).join(", ")})` : "each answer is as declared")
    + (untried ? `; ${untried} were not tried.` : ".");
}

/** Who did as declared, in one table; and all that one backend answered, in another. @param {KitFile<Answer>} contracts @param {Choices} chosen @returns {Drawn} */
function contractTables(contracts, chosen) {
  const { rows } = contracts;
  const asked = rows.filter(({ question }) => question !== null);
  if (asked.length === 0) return unread(contracts);
  const backends = Object.keys(backendsAsked(rows));
  const questions = distinct(asked, ({ question }) => String(question));
  const own = asked.filter(({ backend }) => backend === chosen.backend);
  const overview = make("table", {},
    make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "Question"), ...backends.map((backend) => make("th", { scope: "col" },
      make("a", { href: toAddress({ ...chosen, backend }), ...(backend === chosen.backend ? { "aria-current": "true" } : {}) },
        make("bdi", {}, ...breakable(shorten(backend, 60)))))))),
    make("tbody", {}, ...questions.map((question) => make("tr", {}, make("th", { scope: "row", dir: "auto" }, shorten(question, 120)),
      ...backends.map((backend) => signCell(asked.find((answer) => answer.backend === backend && answer.question === question)))))));
  return [
    ...unread(contracts),
    make("p", {}, "What each backend promises, held against what running it on small problems showed. A row ", make("em", {}, "without a valid key"),
      " is one whose keys are all masked: the right answer is zeros, and many kernels give NaN or the mean of what is hidden."),
    make("div", { class: "legend" }, ...[true, false, null].map((ok) => make("span", {}, signOf(ok).join(" ")))),
    scrollable("Who did as declared", overview, "contracts"),
    make("h4", {}, make("bdi", {}, shorten(chosen.backend, 60)), ", answer by answer"),
    scrollable(`The answers of ${chosen.backend}`, make("table", {},
      make("thead", {}, make("tr", {}, ...["Question", "Declared", "Found", "So"].map((title) => make("th", { scope: "col" }, title)))),
      make("tbody", {}, ...own.map(({ question, declared, found, ok }) => make("tr", {}, make("th", { scope: "row", dir: "auto" }, shorten(String(question), 120)),
        ...[declared ?? "", found].map((text) => make("td", { dir: "auto" }, shorten(text, 600))),
        make("td", ok === false ? { class: "beyond" } : {}, signOf(ok).join(" ")))))), "answers"),
    ...notRun(rows),
    make("p", { class: "quiet" }, `Asked with PyTorch ${distinct(asked, ({ torch }) => shorten(torch, 20)).join(", ")} on ${distinct(asked, ({ device }) => shorten(device, 20)).join(", ")} (`,
      make("code", {}, contracts.command), "), whatever commit is chosen above. docs/backends.md says the same, and what each declares for GPUs."),
  ];
}

/** @param {Answer | undefined} answer */
function signCell(answer) {
  if (!answer) return make("td", {}, "");
  const [sign, word] = signOf(answer.ok);
  return make("td", { class: answer.ok === false ? "beyond" : "", title: shorten(answer.found, 300) },
    make("span", { "aria-hidden": "true" }, sign), make("span", { class: "visually-hidden" }, word));
}

/** @param {Answer[]} rows @returns {HTMLElement[]} */
function notRun(rows) {
  const groups = [...groupBy(rows.filter(({ question }) => question === null), ({ found }) => found)];
  return groups.map(([reason, own]) => make("p", { dir: "auto" }, make("b", {}, own.map(({ backend }) => shorten(backend, 60)).join(", ")), `: ${shorten(reason, 300)}.`));
}

/** @param {string} name @param {HTMLElement} table @param {string} kind */
function scrollable(name, table, kind) {
  return make("div", { class: `scroll ${kind}`, role: "region", tabindex: "0", "aria-label": shorten(name, 100) }, table);
}
