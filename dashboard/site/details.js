/** The card with all that is known of one cell: shown on hover and focus, kept open by a click or Enter. */
class Details {
  /** @param {HTMLElement} card @param {Map<string, Cell>} cells @param {Data} data */
  constructor(card, cells, data) {
    this.card = card;
    this.cells = cells;
    this.data = data;
    /** @type {HTMLElement | null} */
    this.anchor = null;
    this.pinned = false;
    document.addEventListener("pointerover", (event) => this.peek(event));
    document.addEventListener("focusin", (event) => this.peek(event));
    document.addEventListener("click", (event) => this.click(event));
    document.addEventListener("keydown", (event) => { if (event.key === "Escape") this.close(true); });
    addEventListener("scroll", () => { if (!this.pinned) this.close(false); }, { passive: true });
  }

  /** @param {Event} event */
  cellAt(event) {
    const button = event.target instanceof Element ? event.target.closest("button.cell") : null;
    return button instanceof HTMLElement && button.dataset.cell !== undefined ? button : null;
  }

  /** @param {Event} event */
  peek(event) {
    if (this.pinned) return;
    const button = this.cellAt(event);
    if (button) this.open(button, false);
    else if (document.activeElement === document.body || event.type === "focusin") this.close(false);
  }

  /** @param {Event} event */
  click(event) {
    const button = this.cellAt(event);
    if (button) {
      this.open(button, true);
      /** @type {HTMLElement | null} */ (this.card.querySelector(".close"))?.focus();
    } else if (event.target instanceof Node && !this.card.contains(event.target)) this.close(false);
  }

  /** @param {HTMLElement} button @param {boolean} pin */
  open(button, pin) {
    const cell = this.cells.get(button.dataset.cell ?? "");
    if (!cell) return;
    this.anchor?.removeAttribute("aria-describedby");
    this.anchor = button;
    this.pinned = pin;
    button.setAttribute("aria-describedby", "details");
    this.card.dataset.pinned = String(pin);
    this.card.replaceChildren(...cardOf(cell, () => this.close(true)));
    this.card.hidden = false;
    this.place(button.getBoundingClientRect());
  }

  /** Beside the cell, where there is room. @param {DOMRect} cell */
  place(cell) {
    const { offsetWidth: width, offsetHeight: height } = this.card;
    const right = cell.right + 8 + width <= innerWidth ? cell.right + 8 : cell.left - width - 8;
    this.card.style.left = `${Math.max(8, Math.min(right, innerWidth - width - 8))}px`;
    this.card.style.top = `${Math.max(8, Math.min(cell.top, innerHeight - height - 8))}px`;
  }

  /** @param {boolean} returnFocus */
  close(returnFocus) {
    if (this.card.hidden) return;
    const inside = this.card.contains(document.activeElement);
    this.card.hidden = true;
    this.pinned = false;
    this.anchor?.removeAttribute("aria-describedby");
    if (returnFocus && inside) this.anchor?.focus();
    if (!this.card.hidden && !this.pinned) this.card.hidden = true;
  }
}

/** @param {Cell} cell @param {() => void} close */
function cardOf(cell, close) {
  const timed = cell.seconds === null ? [] : [make("a", { href: leadToTrust(last, cell) }, "Its samples, and how far to trust them")];
  const closing = make("button", { class: "close", type: "button" }, "Close");
  closing.addEventListener("click", close);
  const copying = make("button", { type: "button" }, "Copy");
  copying.addEventListener("click", async () => {
    copying.textContent = (await copy(cell.command)) ? "Copied" : "Select the text above and copy it";
  });
  return [
    make("h3", {}, make("bdi", {}, shorten(cell.backend, 80)), `, ${cell.heading ?? sizeHeading(cell.size)}, ${cell.dtype}, ${cell.direction}`),
    make("dl", {}, ...facts(cell).flatMap(([term, text]) => [make("dt", {}, term), make("dd", { dir: "auto", class: "long" }, text)])),
    make("p", { class: "links" }, make("a", { href: leadToHistory(last, cell) }, "Over the commits"), ...timed),
    make("div", {}, make("span", { class: "quiet" }, "Measure it again: "), copying),
    make("pre", {}, make("code", {}, cell.command)),
    closing,
  ];
}

/** What is known of a cell, term by term. @param {Cell} cell @returns {[string, string][]} */
function facts(cell) {
  const stacked = cell.level === "stack";
  /** @type {[string, string | null][]} */
  const all = [
    ["Status", words(cell.status) + (cell.reason ? `: ${cell.reason}` : "")],
    ["Time", cell.seconds === null ? null : `${si(cell.seconds, "s")} a call (median)`],
    ["Interval", cell.seconds === null ? null : `${si(cell.seconds_low, "s")} to ${si(cell.seconds_high, "s")}; half of all samples ${si(cell.seconds_q25, "s")} to ${si(cell.seconds_q75, "s")}`],
    ["Samples", cell.seconds === null ? null : `n = ${cell.n}` + (cell.rounds ? ` in ${cell.rounds} rounds` : "")],
    ["Speed-up", cell.speedup === null ? null : `${ratio(cell.speedup)} eager (${ratio(cell.speedup_low)} to ${ratio(cell.speedup_high)})`],
    ["Rate", cell.seconds && cell.flops ? si(cell.flops / cell.seconds, "FLOP/s") : null],
    ["Memory", cell.bytes === null ? null : `${si(cell.bytes, "B")} beyond the inputs`],
    ["Predicted", cell.predicted_bytes === null ? null : `${si(cell.predicted_bytes, "B")} beyond the inputs`],
    ["Error", cell.error === null ? null : stacked ? `${ratio(cell.error)} eager’s drift` : `${percent(cell.error)} of the budget`],
    ...cell.errors.map(([name, error, budget]) => /** @type {[string, string]} */ ([
      `   ${name}`, `${error === null ? "not finite" : error.toExponential(1)} ${stacked ? "beside eager’s" : "of"} ${budget === null ? "?" : budget.toExponential(1)}${stacked ? "" : " allowed"}`])),
    ["Compiling", cell.compile_seconds === null ? null : `${si(cell.compile_seconds, "s")}, once and not in the time`],
    ["Kernels", cell.kernels.length ? cell.kernels.join(", ") : null],
    ["Disturbed", cell.disturbed || null],
    ["Machine", cell.machine || null],
    ["Measured", [cell.measured, cell.effort && `${cell.effort} effort`].filter(Boolean).join(", ") || null],
  ];
  return /** @type {[string, string][]} */ (all.filter(([, text]) => text !== null));
}

/** @param {string} text */
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}
