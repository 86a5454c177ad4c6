// The processes as bars over virtual time, or over the numbers of records where time stands still.

const AXIS_HEIGHT = 24;

/** In a row, from top to bottom: where the marks of each class are. */
const LANES = { read: [2, 5], write: [8, 5], stream: [14, 4], process: [19, 3], time: [19, 3], host: [19, 3], other: [19, 3], trouble: [1, 22] };

const TROUBLE = CLASSES.findIndex(([name]) => name === "trouble");

class Timeline {
  constructor(app, list, rows) {
    Object.assign(this, { app, list, rows, mode: "time", from: 0, to: 1 });
    this.bars = byId("bars");
    this.axis = byId("axis");
    byId("by-time").addEventListener("click", () => this.setMode("time"));
    byId("by-record").addEventListener("click", () => this.setMode("record"));
    byId("zoom-in").addEventListener("click", () => this.zoom(1 / 2));
    byId("zoom-out").addEventListener("click", () => this.zoom(2));
    byId("zoom-all").addEventListener("click", () => this.zoomAll());
    const host = list.host;
    host.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.shiftKey) return;
      event.preventDefault();
      if (event.ctrlKey) this.zoom(event.deltaY > 0 ? 1.25 : 0.8, this.valueAt(event));
      else this.pan(Math.sign(event.deltaY || event.deltaX) * 0.1);
    }, { passive: false });
    host.addEventListener("mousemove", (event) => this.hover(event));
    host.addEventListener("mouseleave", () => (byId("readout").textContent = ""));
    host.addEventListener("click", (event) => {
      const at = this.recordAt(event);
      if (at !== undefined) app.select(at);
    });
    new ResizeObserver(() => this.draw()).observe(this.bars.parentElement);
    byId("legend").append(...CLASSES.slice(0, 7).map(([name, label]) => el("span", { class: `class ${name}` }, label)));
  }

  setTape() {
    this.setMode(this.app.tape.summary.last_ms > 0 ? "time" : "record");
  }

  setMode(mode) {
    this.mode = mode;
    byId("by-time").setAttribute("aria-pressed", String(mode === "time"));
    byId("by-record").setAttribute("aria-pressed", String(mode === "record"));
    this.zoomAll();
  }

  get end() {
    const { tape } = this.app;
    return Math.max(1, this.mode === "time" ? (tape.time[tape.length - 1] ?? 0) : tape.length);
  }

  value(at) {
    return this.mode === "time" ? this.app.tape.time[at] : at;
  }

  zoomAll() {
    [this.from, this.to] = [0, this.end * 1.01];
    this.draw();
  }

  zoom(by, around = (this.from + this.to) / 2) {
    const least = this.mode === "time" ? 0.01 : 4;
    const span = Math.min(Math.max((this.to - this.from) * by, least), this.end * 1.01);
    const share = (around - this.from) / (this.to - this.from);
    this.from = Math.max(0, Math.min(around - share * span, this.end * 1.01 - span));
    this.to = this.from + span;
    this.draw();
  }

  pan(by) {
    const span = this.to - this.from;
    this.from = Math.max(0, Math.min(this.from + by * span, this.end * 1.01 - span));
    this.to = this.from + span;
    this.draw();
  }

  /** Shows the time from one record to another, and a little around it. */
  zoomTo(first, last) {
    const [from, to] = [this.value(first), this.value(last)];
    const around = Math.max((to - from) * 0.05, this.mode === "time" ? 0.5 : 2);
    [this.from, this.to] = [Math.max(0, from - around), Math.min(to + around, this.end * 1.01)];
    this.draw();
  }

  /** Brings record `at` into view. */
  follow(at) {
    if (at === null) return this.draw();
    const value = this.value(at);
    if (value < this.from || value > this.to) this.pan((value - (this.from + this.to) / 2) / (this.to - this.from));
    else this.draw();
  }

  valueAt(event) {
    const box = this.bars.getBoundingClientRect();
    return this.from + ((event.clientX - box.left) / box.width) * (this.to - this.from);
  }

  /** The record of the process under the pointer that is next to it. */
  recordAt(event) {
    const box = this.bars.getBoundingClientRect();
    const row = this.rows()[Math.floor(this.list.first + (event.clientY - box.top) / this.list.rowHeight)];
    if (event.clientX < box.left || row === undefined) return undefined;
    const records = this.app.tape.recordsOf(row);
    if (records.length === 0) return undefined;
    const place = this.lowerBound(records, this.valueAt(event));
    const near = [records[place - 1], records[place]].filter((at) => at !== undefined);
    const distance = (at) => Math.abs(this.value(at) - this.valueAt(event));
    return near.sort((a, b) => distance(a) - distance(b))[0];
  }

  lowerBound(records, value) {
    let low = 0;
    let high = records.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.value(records[middle]) < value) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  hover(event) {
    const at = this.recordAt(event);
    if (at === undefined) return;
    const { tape } = this.app;
    const kind = tape.kindOf(at);
    const fields = tape.fields(at, () => {});
    byId("readout").textContent = `${clock(tape.time[at])}, record ${at}: ${kind} ${fields ? says(kind, fields).slice(0, 120) : ""}`;
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
    const { tape } = this.app;
    const ratio = window.devicePixelRatio || 1;
    const prepare = (canvas, height) => {
      const width = canvas.clientWidth;
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      const paper = canvas.getContext("2d");
      paper.scale(ratio, ratio);
      return [paper, width];
    };
    const styles = getComputedStyle(document.documentElement);
    const colour = (name) => styles.getPropertyValue(`--${name}`).trim();
    this.drawAxis(...prepare(this.axis, AXIS_HEIGHT), colour);
    const [paper, width] = prepare(this.bars, this.bars.clientHeight);
    if (width === 0 || !tape) return;
    const colours = Object.fromEntries(CLASSES.map(([name]) => [name, colour(name)]));
    const numbers = tape.kindNames.map((name) => CLASSES.findIndex(([known]) => known === classOf(name)));
    const { first, rowHeight } = this.list;
    const rows = this.rows();
    for (let n = Math.floor(first); n < Math.min(rows.length, first + this.list.visible + 1); n += 1) {
      const top = (n - first) * rowHeight;
      const process = tape.processes[rows[n]];
      if (process) {
        const from = this.mode === "time" ? process.start_ms : process.start;
        const to = this.mode === "time" ? (process.end_ms ?? tape.summary.last_ms) : (process.end ?? tape.length);
        paper.fillStyle = colour("bar");
        const [x0, x1] = [Math.max(-2, this.x(from, width)), Math.min(width + 2, this.x(to, width))];
        if (x1 >= x0) paper.fillRect(x0, top + 1, Math.max(2, x1 - x0), rowHeight - 2);
      }
      this.drawMarks(paper, tape.recordsOf(rows[n]), top, width, colours, numbers);
    }
    if (this.app.selected !== null) {
      paper.fillStyle = colour("cursor");
      paper.fillRect(Math.round(this.x(this.value(this.app.selected), width)), 0, 1.5, this.bars.clientHeight);
    }
  }

  drawMarks(paper, records, top, width, colours, numbers) {
    const { tape } = this.app;
    const marks = new Uint8Array(Math.ceil(width) + 1);
    for (let place = this.lowerBound(records, this.from); place < records.length; place += 1) {
      const value = this.value(records[place]);
      if (value > this.to) break;
      const at = records[place];
      marks[Math.floor(this.x(value, width))] |= 1 << (tape.isTrouble(at) ? TROUBLE : numbers[tape.kind[at]]);
    }
    CLASSES.forEach(([name], bit) => {
      const [y, height] = LANES[name];
      paper.fillStyle = colours[name];
      for (let x = 0; x < marks.length; x += 1) if (marks[x] & (1 << bit)) paper.fillRect(x, top + y, 2, height);
    });
  }

  x(value, width) {
    return ((value - this.from) / (this.to - this.from)) * width;
  }

  drawAxis(paper, width, colour) {
    const span = this.to - this.from;
    let step = 10 ** Math.floor(Math.log10(span / Math.max(2, width / 90)));
    for (const by of [1, 2, 5, 10]) {
      if ((span / (step * by)) * 90 <= width) {
        step *= by;
        break;
      }
    }
    if (this.mode === "record") step = Math.max(1, Math.round(step));
    let free = 0;
    paper.font = "11px system-ui, sans-serif";
    paper.fillStyle = colour("quiet");
    for (let value = Math.ceil(this.from / step) * step; value <= this.to; value += step) {
      const x = this.x(value, width);
      paper.fillRect(x, AXIS_HEIGHT - 5, 1, 5);
      const label = this.mode === "time" ? duration(Number(value.toPrecision(6))) : number.format(Math.round(value));
      const labelWidth = paper.measureText(label).width;
      if (x < free || x + 3 + labelWidth > width) continue;
      paper.fillText(label, x + 3, AXIS_HEIGHT - 9);
      free = x + labelWidth + 12;
    }
  }
}
