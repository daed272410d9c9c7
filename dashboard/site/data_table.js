/**
 * A table that sorts, filters and can be taken away as CSV. Its order and its filter stand in the address as `sort`
 * ("column" or "-column") and `filter`, which the page declares among its choices.
 * @template T
 * @typedef {{name: string, title: string, value: (row: T) => string | number | null, show?: (row: T) => Node | string}} Column
 *   `value` is what is sorted, filtered and written to the CSV; `show` what is seen, if not that.
 */

const ROWS_AT_FIRST = 200;

/**
 * @template T @param {{caption: string, file: string, columns: Column<T>[], rows: T[], chosen: Choices}} wanted
 * @returns {HTMLElement}
 */
function dataTable({ caption, file, columns, rows, chosen }) {
  let all = false;
  const body = make("tbody");
  const count = make("span", { class: "quiet", role: "status" });
  const filter = /** @type {HTMLInputElement} */ (make("input", { type: "search", "aria-label": `Filter: ${caption}`, placeholder: "Filter" }));
  filter.value = chosen.filter ?? "";
  const headings = columns.map((column) => {
    const button = make("button", { type: "button" }, column.title);
    button.addEventListener("click", () => {
      remember({ sort: chosen.sort === column.name ? `-${column.name}` : column.name });
      fill();
    });
    const numbers = rows.some((row) => typeof column.value(row) === "number");
    return make("th", { scope: "col", ...(numbers ? { class: "number" } : {}) }, button);
  });
  const more = make("button", { type: "button", class: "more" }, "Show all");
  more.addEventListener("click", () => { all = true; fill(); });
  filter.addEventListener("input", () => { remember({ filter: filter.value }); fill(); });
  const csv = make("button", { type: "button" }, "CSV");
  csv.addEventListener("click", () => download(`${file}.csv`, toCsv([columns.map((column) => column.title),
    ...wantedRows().map((row) => columns.map((column) => column.value(row)))])));

  /** @param {Partial<Choices>} change */
  function remember(change) {
    Object.assign(chosen, change);
    history.replaceState(history.state, "", toAddress(chosen));
  }

  function wantedRows() {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const left = rows.filter((row) => {
      const text = columns.map((column) => column.value(row) ?? "").join(" ").toLowerCase();
      return words.every((word) => text.includes(word));
    });
    const column = columns.find((column) => column.name === chosen.sort?.replace(/^-/, ""));
    const sign = chosen.sort?.startsWith("-") ? -1 : 1;
    return column ? left.sort((a, b) => inOrder(column.value(a), column.value(b), sign)) : left;
  }

  function fill() {
    const found = wantedRows();
    const seen = all ? found : found.slice(0, ROWS_AT_FIRST);
    body.replaceChildren(...seen.map((row) => make("tr", {}, ...columns.map((column, at) => {
      const value = column.value(row);
      const text = column.show?.(row) ?? String(value ?? "");
      return at === 0 ? make("th", { scope: "row", dir: "auto" }, text)
        : make("td", { dir: "auto", ...(typeof value === "number" ? { class: "number" } : {}) }, text);
    }))));
    headings.forEach((heading, at) => {
      const { name } = columns[at];
      heading.setAttribute("aria-sort", chosen.sort === name ? "ascending" : chosen.sort === `-${name}` ? "descending" : "none");
    });
    count.textContent = `${seen.length === found.length ? "" : `${seen.length} of `}${found.length}${found.length === rows.length ? "" : ` (of ${rows.length})`} rows`;
    more.hidden = seen.length === found.length;
  }

  fill();
  return make("figure", { class: "data-table" },
    make("figcaption", {}, make("b", {}, caption), " ", filter, " ", csv, " ", count),
    make("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": caption },
      make("table", {}, make("thead", {}, make("tr", {}, ...headings)), body)), more);
}

/** Numbers by size, texts as a reader counts; what is not known comes last either way. @param {string | number | null} a @param {string | number | null} b @param {number} sign */
function inOrder(a, b, sign) {
  if (a === null || b === null) return Number(a === null) - Number(b === null);
  return sign * (typeof a === "number" && typeof b === "number" ? a - b : bySize(String(a), String(b)));
}

/** RFC 4180; a text that a spreadsheet would take for a formula is quoted with an apostrophe. @param {(string | number | null)[][]} rows */
function toCsv(rows) {
  const field = (/** @type {string | number | null} */ value) => {
    const text = typeof value === "string" && /^[=+@\t\r-]/.test(value) ? `'${value}` : String(value ?? "");
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return rows.map((row) => row.map(field).join(",") + "\r\n").join("");
}

/** Hands a text to the reader as a file. @param {string} name @param {string} text */
function download(name, text) {
  const link = make("a", { href: URL.createObjectURL(new Blob([text], { type: "text/csv" })), download: name });
  link.click();
  URL.revokeObjectURL(link.getAttribute("href") ?? "");
}
