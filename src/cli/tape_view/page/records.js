// The list of records: filters, and the search through all of them.

const ROW_HEIGHT = 22;

class Records {
  constructor(panel, app) {
    this.app = app;
    this.hidden = new Set();
    this.process = null;
    this.path = null;
    this.query = "";
    this.turn = 0;
    this.boxes = CLASSES.map(([name, label]) => {
      const box = el("input", { type: "checkbox", checked: true });
      box.addEventListener("change", () => {
        if (box.checked) this.hidden.delete(name);
        else this.hidden.add(name);
        this.refresh();
      });
      return el("label", { class: `class ${name}` }, box, label);
    });
    this.muted = el("input", { type: "checkbox", checked: true, on: { change: () => this.refresh() } });
    this.mutedLabel = el("label", { class: "class" }, this.muted, "Muted");
    this.limits = el("span", { class: "limits" });
    const host = el("div", { id: "record-list" });
    panel.append(el("div", { class: "bar" }, el("div", { role: "group", "aria-label": "Kinds of records", class: "classes" }, this.boxes, this.mutedLabel), this.limits), host);
    this.list = new List(host, {
      rowHeight: ROW_HEIGHT,
      label: "Records",
      render: (row) => this.render(this.at(row)),
      select: (row) => app.select(this.at(row), { from: this }),
    });
  }

  at(row) {
    return this.rows ? this.rows[row] : row;
  }

  render(at) {
    const { tape } = this.app;
    const kind = tape.kindOf(at);
    const fields = tape.fields(at, () => this.list.draw());
    return { cells: recordCells(this.app, tape, at, kind, fields), attributes: { class: rowClass(tape, at, kind) } };
  }

  setTape() {
    this.process = null;
    this.path = null;
    this.mutedLabel.hidden = !this.app.tape.summary.annotations.some((said) => said.kind === "mute");
    this.refresh();
  }

  setProcess(process) {
    this.process = process;
    this.refresh();
  }

  setPath(path, name) {
    this.path = path;
    this.pathName = name;
    this.refresh();
  }

  setQuery(query) {
    this.query = query.trim();
    this.refresh();
  }

  /** Applies the filters, then searches among what is left. */
  refresh() {
    const { tape } = this.app;
    this.turn += 1;
    const isHidden = tape.kindNames.map((name) => this.hidden.has(classOf(name)));
    // What did not work is a failure, whatever its kind.
    const showsTrouble = !this.hidden.has("trouble");
    const mutes = this.muted.checked ? [] : tape.summary.annotations.filter((said) => said.kind === "mute");
    const spans = mutes.map((said) => [said.span?.start_event_id ?? said.event_id, said.span?.end_event_id ?? said.event_id]);
    const isMuted = (at) => spans.some(([from, to]) => from <= at && at <= to);
    const isAll = this.process === null && this.path === null && !isHidden.includes(true) && spans.length === 0;
    this.rows = null;
    if (!isAll) {
      const rows = new Int32Array(tape.length);
      let found = 0;
      for (let at = 0; at < tape.length; at += 1) {
        if (isHidden[tape.kind[at]] && !(showsTrouble && tape.isTrouble(at))) continue;
        if (this.process !== null && tape.process[at] !== this.process) continue;
        if (this.path !== null && tape.path[at] !== this.path) continue;
        if (spans.length > 0 && isMuted(at)) continue;
        rows[found] = at;
        found += 1;
      }
      this.rows = rows.subarray(0, found);
    }
    this.showLimits();
    if (this.query) this.search();
    else {
      byId("search-state").textContent = "";
      this.shown();
    }
  }

  showLimits() {
    const { tape } = this.app;
    const drop = (label, clear) => el("button", { type: "button", class: "chip", on: { click: clear } }, `${label} ✕`);
    this.limits.replaceChildren();
    if (this.process !== null) {
      const name = this.process < 0 ? "no process" : `process ${nameOf(tape.processes[this.process])}`;
      this.limits.append(drop(name, () => this.app.setProcess(null)));
    }
    if (this.path !== null) this.limits.append(drop(line(this.pathName), () => this.setPath(null)));
  }

  shown() {
    const { tape } = this.app;
    this.list.setCount(this.rows ? this.rows.length : tape.length);
    this.follow(this.app.selected);
  }

  /** Selects the row of record `at`, if it is listed. */
  follow(at) {
    let row = at;
    if (this.rows) {
      row = lowerBound(this.rows, at);
      if (this.rows[row] !== at) row = -1;
    }
    this.list.show(row ?? -1);
  }

  async search() {
    const { tape } = this.app;
    const turn = this.turn;
    const state = byId("search-state");
    const among = this.rows;
    const wanted = this.query.toLowerCase();
    const quotedWanted = JSON.stringify(wanted).slice(1, -1);
    const kindMatches = tape.kindNames.map((name) => name.toLowerCase().includes(wanted));
    const found = [];
    const { block_records: size, detailed } = tape.summary.columns;
    const publish = (isDone) => {
      this.rows = Int32Array.from(found);
      state.textContent = `${count(found.length, "record")}${isDone ? "" : "…"}`;
      this.shown();
    };
    let next = 0;
    let last = performance.now();
    this.rows = new Int32Array(0);
    for (let from = 0; from < tape.length; from += size) {
      const to = Math.min(from + size, tape.length);
      // Nothing of a block is unpacked if none of its records is listed.
      let some = among ? lowerBound(among, from) : from;
      const end = among ? lowerBound(among, to) : to;
      if (some >= end) continue;
      const text = from < detailed ? await unpackedText(`${tape.letter}-block-${from / size}`) : "";
      if (turn !== this.turn) return;
      const mayMatch = text.toLowerCase().includes(quotedWanted);
      const block = mayMatch ? JSON.parse(text) : [];
      for (; some < end; some += 1) {
        const at = among ? among[some] : some;
        const fields = mayMatch ? block[at - from] : undefined;
        if (kindMatches[tape.kind[at]] || (fields && JSON.stringify(fields).toLowerCase().includes(quotedWanted))) found.push(at);
      }
      next += 1;
      if (performance.now() - last > 200) {
        publish(false);
        last = performance.now();
      }
    }
    publish(true);
  }
}

/** The first place in sorted `rows` whose value is at least `value`. */
function lowerBound(rows, value) {
  let low = 0;
  let high = rows.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (rows[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

function rowClass(tape, at, kind) {
  const failed = tape.isTrouble(at) ? "failure" : tape.isAbsent(at) ? "absent" : "";
  return `record ${classOf(kind)} ${failed} ${tape.annotated.has(at) ? "annotated" : ""}`;
}

function recordCells(app, tape, at, kind, fields) {
  const process = tape.processes[tape.process[at]];
  const mark = tape.annotated.has(at) ? el("span", { class: "mark", title: "annotated" }, "✎") : "";
  return [
    el("span", { class: "seq" }, el("a", { href: app.link(tape, { record: at }), tabindex: -1 }, String(at))),
    el("span", { class: "time" }, clock(tape.time[at])),
    el("span", { class: "process" }, process ? nameOf(process) : ""),
    el("span", { class: "kind" }, line(kind)),
    el("span", { class: "says" }, mark, fields === undefined ? "…" : tape.hasFields(at) ? says(kind, fields) : "(fields left out)"),
  ];
}
