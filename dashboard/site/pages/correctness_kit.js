/** By how many families of cases a wrong kernel is rejected, at the dtype where the fewest do. @param {WrongKernel} row */
function fewest(row) {
  const found = Object.values(row.families_by_dtype);
  return found.length ? Math.min(...found) : 0;
}

/** @param {number} n */
function families(n) {
  return `${n}${SPACE}${n === 1 ? "family" : "families"}`;
}

/** @param {Kit} kit */
function killsInWords({ kernels, modules }) {
  const parts = [
    /** @type {const} */ (["kernel", kernels.rows.length, kernels.rows]),
    /** @type {const} */ (["module", distinct(modules.rows, ({ mutant }) => mutant).length, modules.rows]),
  ].flatMap(([noun, n, rows]) => {
    if (rows.length === 0) return [];
    const escaped = rows.filter((row) => fewest(row) === 0);
    return [`${n} wrong ${noun}s, ${escaped.length
      ? `${escaped.length} of them accepted in some dtype (${escaped.slice(0, 5).map(({ mutant }) => shorten(mutant, 60)).join(", ")})`
      : `each rejected by at least ${families(Math.min(...rows.map(fewest)))} of cases at every dtype in which it is wrong`}`];
  });
  return parts.length ? `The checker was given ${parts.join(", and ")}.` : "";
}

/** @param {KitFile<RightKernel>} right */
function rightInWords({ rows }) {
  const sum = (/** @type {(row: RightKernel) => number} */ of) => rows.reduce((total, row) => total + of(row), 0);
  if (rows.length === 0) return "";
  return `It rejected ${sum((row) => row.rejected).toLocaleString("en")} of ${sum((row) => row.tried).toLocaleString("en")} answers of ${
    counted(distinct(rows, ({ kernel }) => kernel).length, "kernel")} that are right, on random problems.`;
}

/** Wrong kernels down, families of cases across; the hardest to catch first. @param {KitFile<WrongKernel>} matrix @param {Choices} chosen @returns {Drawn} */
function killTable(matrix, chosen) {
  const { rows } = matrix;
  if (rows.length === 0) return unread(matrix);
  const modules = chosen.kills === "modules";
  const dtypes = (/** @type {WrongKernel} */ row) => Object.keys(row.families_by_dtype).length;
  /** @type {Column<WrongKernel>[]} */
  const columns = [
    { name: "mutant", title: `Wrong ${modules ? "module" : "kernel"}`, value: (row) => row.mutant, show: (row) => make("bdi", {}, ...breakable(shorten(row.mutant, 60))) },
    ...(modules ? [{ name: "operation", title: "In", value: (/** @type {WrongKernel} */ row) => row.operation }] : []),
    { name: "fewest", title: "Rejected by at least", value: fewest, show: (row) => fewest(row) === 0 ? "✗ none" : families(fewest(row)) },
    { name: "dtypes", title: "Wrong in", value: (row) => Object.keys(row.families_by_dtype).join(" "), show: (row) => counted(dtypes(row), "dtype") },
    ...familiesOf(rows).map((family) => ({
      name: family, title: family,
      value: (/** @type {WrongKernel} */ row) => row.dtypes_by_family[family] ?? 0,
      show: (/** @type {WrongKernel} */ row) => {
        const n = row.dtypes_by_family[family] ?? 0;
        return n === 0 ? "·" : make("span", { class: "kill", style: `--tint: ${Math.round((n / dtypes(row)) * 55)}%` }, String(n));
      },
    })),
  ];
  return [
    ...unread(matrix),
    make("p", {}, "A checker is worth what it rejects. Each row is a kernel with one deliberate fault; each column a ", make("em", {}, "family"),
      " of the checker’s cases (an operation, a kind of sizes, memory layout or values). A number: in how many dtypes that family alone rejects it."),
    make("div", { class: `kills ${modules ? "modules" : "kernels"}` }, dataTable({
      caption: `${counted(rows.length, "row")}, the hardest to catch first`, file: matrix.file.replace(".jsonl", ""), columns,
      rows: [...rows].sort((a, b) => fewest(a) - fewest(b)), chosen,
    })),
  ];
}

/** All families, in the order of the checker's cases. @param {WrongKernel[]} rows */
function familiesOf(rows) {
  const longestFirst = rows.map(({ dtypes_by_family }) => Object.keys(dtypes_by_family)).sort((a, b) => b.length - a.length);
  return [...new Set(longestFirst.flat())];
}

/** @param {KitFile<RightKernel>} right @returns {Drawn} */
function rightTable(right) {
  const { rows } = right;
  if (rows.length === 0) return unread(right);
  const dtypes = distinct(rows, ({ dtype }) => dtype);
  return [
    ...unread(right),
    make("p", {}, "Nor may it reject what is right: these kernels round in other ways than eager, and each is right. Beside how many of its answers were rejected, the largest error of any."),
    scrollable("Right kernels, and how many of their answers were rejected", make("table", {},
      make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "Right kernel"), ...dtypes.map((dtype) => make("th", { scope: "col", dir: "auto" }, shorten(dtype, 20))))),
      make("tbody", {}, ...[...groupBy(rows, ({ kernel }) => kernel)].map(([kernel, own]) => make("tr", {},
        make("th", { scope: "row" }, make("bdi", {}, ...breakable(shorten(kernel, 60)))),
        ...dtypes.map((dtype) => rightCell(own.find((row) => row.dtype === dtype))))))), "answers"),
  ];
}

/** @param {RightKernel | undefined} row */
function rightCell(row) {
  if (!row) return make("td", {}, "not tried");
  return make("td", row.rejected ? { class: "beyond" } : {},
    make("span", { class: "first" }, `${row.rejected ? "✗ " : ""}${row.rejected.toLocaleString("en")} of ${row.tried.toLocaleString("en")}`),
    make("span", { class: "second" }, `${ofBudget(row.largest_ratio)} of the budget`));
}
