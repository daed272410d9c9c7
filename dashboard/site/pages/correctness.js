/**
 * What dashboard/pages/correctness.py writes.
 * @template T
 * @typedef {{file: string, command: string, missing: boolean, broken: number, rows: T[]}} KitFile
 */
/**
 * @typedef {{mutant: string, operation: string, families_by_dtype: Record<string, number>, dtypes_by_family: Record<string, number>}} WrongKernel
 * @typedef {{kernel: string, dtype: string, tried: number, rejected: number, not_judged: number, largest_ratio: number}} RightKernel
 * @typedef {{backend: string, device: string, torch: string, question: string | null, declared: string | null, found: string, ok: boolean | null}} Answer
 * @typedef {{kernels: KitFile<WrongKernel>, modules: KitFile<WrongKernel>, right: KitFile<RightKernel>, contracts: KitFile<Answer>, charts: {drift: any}}} Kit
 */

const LEVELS_SHOWN = { core: "attention alone", module: "whole module" };
const KILLS_SHOWN = { kernels: "kernels", modules: "modules" };

addPage("correctness", {
  title: "Correctness",
  about: "Is what was timed also right? Every backend’s answer is compared with one calculated in float64, and what compares them is itself put to the test.",
  uses: ["place", "commit", "direction", "dtype"],
  choices: {
    level: { legend: "Level", values: ({ cells }) => present(LEVELS_SHOWN, cells, (cell) => cell.level) },
    tensor: { legend: "Error of", values: (shown) => tensorsOf(judgedCells(shown)) },
    backend: { legend: "Contracts of", as: "select", values: async () => backendsAsked((await kitData()).contracts.rows) },
    kills: { legend: "Faults in", values: () => KILLS_SHOWN },
    sort: { legend: "", values: null },
    filter: { legend: "", values: null },
  },
  draw: async (shown) => {
    const kit = await kitData();
    details.close(false);
    cellsOnPage.clear();
    const { cells, chosen } = shown;
    const stacks = cells.filter((cell) => cell.level === "stack" && cell.direction === chosen.direction && cell.dtype === chosen.dtype);
    return [
      make("div", { class: "verdict" },
        make("p", {}, make("strong", {}, errorsInShort(cells)), " ", errorsInWords(cells, chosen)),
        make("ul", {}, ...[driftInWords(stacks), contractsInWords(kit.contracts), killsInWords(kit), rightInWords(kit.right)]
          .filter(Boolean).map((sentence) => make("li", {}, sentence)))),
      chapter("correctness-errors", "Error, as a share of what is allowed", errorTable(judgedCells(shown), chosen)),
      chapter("correctness-drift", "Drift with depth", driftOf(stacks, kit)),
      chapter("correctness-contracts", "Contracts: masked rows, determinism and the rest", contractTables(kit.contracts, chosen)),
      chapter("correctness-kills", "What the checker rejects", killTable(kit[chosen.kills === "modules" ? "modules" : "kernels"], chosen)),
      chapter("correctness-right", "What the checker does not reject", rightTable(kit.right)),
    ];
  },
});

/** @returns {Promise<Kit>} */
function kitData() {
  return load("correctness");
}

/** The labels whose key some cell has. @param {Record<string, string>} labels @param {Cell[]} cells @param {(cell: Cell) => string} key */
function present(labels, cells, key) {
  const there = new Set(cells.map(key));
  return Object.fromEntries(Object.entries(labels).filter(([name]) => there.has(name)));
}

/** A part of a page under a heading of its own. @param {string} id @param {string} title @param {Drawn} content */
function chapter(id, title, content) {
  return make("section", { id, "aria-labelledby": `${id}-title` }, make("h3", { id: `${id}-title`, class: "chapter", tabindex: "-1" }, title), ...content);
}

/** What cannot be read of a file, and what makes it anew. @param {KitFile<unknown>} kitFile @returns {HTMLElement[]} */
function unread({ file, command, missing, broken, rows }) {
  const what = missing ? "There is no" : rows.length === 0 && broken === 0 ? "There is nothing in"
    : broken ? `${broken} line${broken > 1 ? "s" : ""} could not be read (half written, or of another version) of` : "";
  return what ? [make("p", { class: "warning" }, `${what} results/conformance/${file}. This makes it anew: `, make("code", {}, command))] : [];
}

/** Once in words: "1 backend", "9 backends"; "80,000 answers". @param {number} n @param {string} noun */
function counted(n, noun) {
  return `${n.toLocaleString("en")}${SPACE}${noun}${n === 1 ? "" : "s"}`;
}

/** Lets the card show `cell`: its key. @param {Cell} cell */
function registered(cell) {
  const name = String(cellsOnPage.size);
  cellsOnPage.set(name, cell);
  return name;
}
