// A list of any length, of which the rows in view exist. Beyond the height that browsers can scroll, the scroll bar stands
// for places in proportion, and the wheel and the keys still move by rows.

const HEIGHT_MAX = 15_000_000;

class List {
  /**
   * `host`: an element; `rowHeight` in pixels; `label`; `role`: `grid` or `treegrid`; `render(index)` returns the cells and
   * attributes of a row; `select(index)` is called when a user selects a row; `open(index)` when one is opened.
   */
  constructor(host, { rowHeight, label, role = "grid", render, select, open, keys, drawn }) {
    Object.assign(this, { host, rowHeight, render, select, open, keys, drawn, role });
    this.count = 0;
    this.first = 0;
    this.selected = -1;
    this.id = host.id;
    host.classList.add("list");
    host.tabIndex = 0;
    host.setAttribute("role", role);
    host.setAttribute("aria-label", label);
    this.window = el("div", { class: "window", role: "rowgroup" });
    this.spacer = el("div", { class: "spacer", role: "presentation" });
    host.append(this.window, this.spacer);
    host.addEventListener("scroll", () => this.scrolled());
    host.addEventListener("wheel", (event) => this.wheeled(event), { passive: false });
    host.addEventListener("keydown", (event) => this.pressed(event));
    host.addEventListener("click", (event) => this.clicked(event, false));
    host.addEventListener("dblclick", (event) => this.clicked(event, true));
    new ResizeObserver(() => this.resize()).observe(host);
  }

  get height() {
    return this.host.clientHeight;
  }

  get visible() {
    return this.height / this.rowHeight;
  }

  get lastFirst() {
    return Math.max(0, this.count - this.visible);
  }

  get scrollable() {
    return Math.min(this.count * this.rowHeight, HEIGHT_MAX) - this.height;
  }

  setCount(count) {
    this.count = count;
    this.host.setAttribute("aria-rowcount", count);
    this.host.classList.toggle("empty", count === 0);
    if (this.selected >= count) this.selected = -1;
    this.resize();
  }

  resize() {
    const total = Math.min(this.count * this.rowHeight, HEIGHT_MAX);
    this.spacer.style.height = `${Math.max(0, total - this.height)}px`;
    this.moveTo(this.first);
  }

  /** Shows `first`, which may be between two rows, at the top. */
  moveTo(first) {
    this.first = Math.max(0, Math.min(first, this.lastFirst));
    const top = this.lastFirst > 0 ? (this.first / this.lastFirst) * this.scrollable : 0;
    this.expectedTop = Math.round(top);
    if (Math.abs(this.host.scrollTop - top) > 1) this.host.scrollTop = top;
    this.draw();
  }

  scrolled() {
    if (Math.abs(this.host.scrollTop - this.expectedTop) <= 1) return;
    this.expectedTop = this.host.scrollTop;
    this.first = this.scrollable > 0 ? (this.host.scrollTop / this.scrollable) * this.lastFirst : 0;
    this.draw();
  }

  wheeled(event) {
    if (event.ctrlKey || this.count * this.rowHeight <= HEIGHT_MAX) return;
    event.preventDefault();
    const unit = [1 / this.rowHeight, 1, this.visible][event.deltaMode];
    this.moveTo(this.first + event.deltaY * unit);
  }

  clicked(event, isDouble) {
    const row = event.target.closest("[data-at]");
    if (!row || !this.host.contains(row)) return;
    const at = Number(row.dataset.at);
    if (event.target.closest("a, button")) return;
    if (isDouble) this.open?.(at);
    else this.choose(at);
  }

  pressed(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const page = Math.max(1, Math.floor(this.visible) - 1);
    const steps = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.key in steps && this.count > 0) {
      event.preventDefault();
      const from = this.selected < 0 ? Math.ceil(this.first) - Math.sign(steps[event.key]) : this.selected;
      this.choose(Math.max(0, Math.min(from + steps[event.key], this.count - 1)));
    } else if (event.key === "Enter" && this.selected >= 0 && this.open) {
      event.preventDefault();
      this.open(this.selected);
    } else {
      this.keys?.(event);
    }
  }

  choose(at) {
    this.show(at);
    this.select?.(at);
  }

  /** Marks a row as selected, and brings it into view. */
  show(at) {
    this.selected = at;
    if (at < 0) return this.draw();
    if (at < this.first) this.moveTo(at - (this.first - at > this.visible ? this.visible / 3 : 0));
    else if (at > this.first + this.visible - 1) {
      this.moveTo(at - this.visible + 1 + (at - this.first > 2 * this.visible ? this.visible / 2 : 0));
    } else this.draw();
  }

  draw() {
    if (this.isDue) return;
    this.isDue = true;
    requestAnimationFrame(() => {
      this.isDue = false;
      this.drawNow();
    });
  }

  drawNow() {
    const from = Math.floor(this.first);
    const to = Math.min(this.count, Math.ceil(this.first + this.visible) + 1);
    const rows = [];
    for (let at = from; at < to; at += 1) {
      const { cells, attributes } = this.render(at);
      for (const cell of cells) if (cell !== "") cell.setAttribute("role", "gridcell");
      rows.push(el("div", {
        id: `${this.id}-${at}`,
        role: "row",
        "data-at": at,
        "aria-selected": String(at === this.selected),
        "aria-rowindex": at + 1,
        ...attributes,
        class: `row ${attributes?.class ?? ""}`,
        style: { top: `${(at - this.first) * this.rowHeight}px`, height: `${this.rowHeight}px` },
      }, cells));
    }
    this.window.replaceChildren(...rows);
    const isShown = this.selected >= from && this.selected < to;
    if (isShown) this.host.setAttribute("aria-activedescendant", `${this.id}-${this.selected}`);
    else this.host.removeAttribute("aria-activedescendant");
    this.drawn?.(from, to);
  }
}
