// The tree of processes, a row each, beside its bar on the timeline.

const PROCESS_ROW_HEIGHT = 24;

class Processes {
  constructor(app) {
    this.app = app;
    this.shut = new Set();
    this.rows = [];
    this.list = new List(byId("process-list"), {
      rowHeight: PROCESS_ROW_HEIGHT,
      label: "Processes",
      role: "treegrid",
      render: (row) => this.render(row),
      select: (row) => app.setProcess(this.rows[row]),
      open: (row) => this.toggle(this.rows[row]),
      keys: (event) => this.pressed(event),
      drawn: () => this.timeline.draw(),
    });
    this.timeline = new Timeline(app, this.list, () => this.rows);
    byId("all-processes").addEventListener("click", () => app.setProcess(null));
  }

  setTape() {
    const { tape } = this.app;
    this.shut.clear();
    this.children = tape.processes.map(() => []);
    this.roots = [];
    tape.processes.forEach((process, n) => {
      // A parent is listed before its children, whatever the tape says.
      if (process.parent !== undefined && process.parent < n) this.children[process.parent].push(n);
      else this.roots.push(n);
    });
    this.list.selected = -1;
    this.lay();
    this.timeline.setTape();
  }

  /** Lists the rows that are not in a shut branch. */
  lay() {
    const { tape } = this.app;
    this.rows = tape.recordsOf(-1).length > 0 ? [-1] : [];
    this.levels = this.rows.map(() => 1);
    const stack = this.roots.map((n) => [n, 1]).reverse();
    while (stack.length > 0) {
      const [n, level] = stack.pop();
      this.rows.push(n);
      this.levels.push(level);
      if (!this.shut.has(n)) for (const child of this.children[n].toReversed()) stack.push([child, level + 1]);
    }
    this.list.setCount(this.rows.length);
  }

  render(row) {
    const { tape } = this.app;
    const n = this.rows[row];
    const level = this.levels[row];
    const process = tape.processes[n];
    if (!process) {
      const many = tape.recordsOf(-1).length;
      const cells = [el("span", { class: "who" }, el("span", { class: "twist" }), el("em", {}, "No process"), ` ${count(many, "record")}`)];
      return { cells, attributes: { "aria-level": 1, class: "none" } };
    }
    const hasChildren = this.children[n].length > 0;
    const isOpen = !this.shut.has(n);
    const twist = el("button", { type: "button", class: "twist", tabindex: -1, "aria-label": isOpen ? "Close" : "Open", on: { click: () => this.toggle(n) } }, hasChildren ? (isOpen ? "▾" : "▸") : "");
    const [badge, kind] = ending(process);
    return {
      cells: [el("span", { class: "who", title: commandOf(process) },
        el("span", { style: { paddingLeft: `${Math.min(level - 1, 12) * 12}px` } }),
        hasChildren ? twist : el("span", { class: "twist" }),
        el("span", { class: "pid" }, String(process.pid)),
        el("span", { class: "command" }, commandOf(process)),
        process.mode === "native" ? el("span", { class: "badge native", title: "a program of the host" }, "native") : "",
        el("span", { class: `badge ${kind}` }, badge))],
      attributes: { "aria-level": level, ...(hasChildren ? { "aria-expanded": String(isOpen) } : {}) },
    };
  }

  toggle(n) {
    if (!this.children[n]?.length) return;
    if (!this.shut.delete(n)) this.shut.add(n);
    this.lay();
  }

  pressed(event) {
    const n = this.rows[this.list.selected];
    const { timeline } = this;
    const run = {
      "+": () => timeline.zoom(1 / 2),
      "-": () => timeline.zoom(2),
      0: () => timeline.zoomAll(),
      ",": () => timeline.pan(-0.2),
      ".": () => timeline.pan(0.2),
      ArrowRight: () => this.shut.has(n) && this.toggle(n),
      ArrowLeft: () => !this.shut.has(n) && this.toggle(n),
    }[event.key];
    if (!run) return;
    event.preventDefault();
    run();
  }

  /** Brings the row of process `n` into view, if it is listed. */
  reveal(n) {
    const row = this.rows.indexOf(n);
    const { list } = this;
    if (row >= 0 && (row < list.first || row + 1 > list.first + list.visible)) list.moveTo(row - list.visible / 2);
  }

  /** Selects the row of process `n`; opens the branches that hold it. */
  follow(n) {
    if (n === null) return this.list.show(-1);
    for (let above = this.app.tape.processes[n]?.parent; above !== undefined; above = this.app.tape.processes[above].parent) this.shut.delete(above);
    this.lay();
    this.list.show(this.rows.indexOf(n));
  }
}

function commandOf(process) {
  return [process.program, ...process.args].map((arg) => line(quoted(arg))).join(" ");
}

/** How a process ended, and whether that is well. */
function ending(process) {
  if (process.status === undefined) return ["no end", "bad"];
  if (process.exit_code !== undefined) return [`exit ${process.exit_code}`, process.exit_code === 0 ? "good" : "bad"];
  return [line(process.status), "bad"];
}
