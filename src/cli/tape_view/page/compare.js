// Two tapes side by side: records that are equal, that differ, and that one tape alone has.

const HOW = ["equal", "changed", "missing", "extra"];
const SIGNS = ["", "≠", "−", "+"];
const FOLDED = "folded";

/** Equal records around a difference that stay in view when the others are folded. */
const AROUND = 3;

class Compare {
  constructor(panel, app) {
    this.app = app;
    this.facts = el("span", { class: "facts", role: "status" });
    this.folds = el("input", { type: "checkbox", checked: true, on: { change: () => this.lay(this.selectedPair()) } });
    const button = (label, run) => el("button", { type: "button", on: { click: run } }, label);
    const host = el("div", { id: "pair-list" });
    panel.append(
      el("div", { class: "bar" },
        el("div", { role: "group", "aria-label": "Differences" }, button("First", () => this.goToFirst()), button("Previous", () => this.step(-1)), button("Next", () => this.step(1))),
        el("label", { class: "class" }, this.folds, "Fold equal records"), this.facts),
      host,
    );
    this.list = new List(host, {
      rowHeight: ROW_HEIGHT,
      label: "Records of both tapes",
      render: (row) => this.render(row),
      select: (row) => this.select(row),
      open: (row) => this.unfold(row),
    });
    this.ready = unpackedText("comparison").then((text) => {
      this.data = JSON.parse(text);
      const { divergence_count: many, runs_left_out: more } = this.data;
      this.facts.textContent = many === 0 ? "The tapes have the same records." : `${count(many, "difference")}${more > 0 ? `; ${number.format(more)} runs of records are not shown` : ""}`;
      this.lay();
    });
  }

  setTape() {}

  /** Lists segments of rows: a run, the ends of a folded run, or one row for what is folded. */
  lay(pair) {
    const { runs } = this.data;
    this.segments = [];
    this.unfolded ??= new Set();
    let [row, a, b, difference] = [0, 0, 0, 0];
    const push = (how, rows, pairs, run) => {
      this.segments.push({ row, rows, how, a, b, difference, pairs, run });
      row += rows;
      if (how !== "extra") a += pairs;
      if (how !== "missing") b += pairs;
      if (!["equal", FOLDED].includes(how)) difference += pairs;
    };
    for (let n = 0; n < runs.length; n += 2) {
      const how = HOW[runs[n]];
      const many = runs[n + 1];
      const head = n === 0 ? 0 : AROUND;
      const tail = n + 2 >= runs.length ? 0 : AROUND;
      const isFolded = how === "equal" && this.folds.checked && many > head + tail + 2 && !this.unfolded.has(n);
      if (!isFolded) push(how, many, many, n);
      else {
        if (head > 0) push(how, head, head, n);
        push(FOLDED, 1, many - head - tail, n);
        if (tail > 0) push(how, tail, tail, n);
      }
    }
    this.list.setCount(row);
    if (pair) this.showPair(pair);
  }

  segmentAt(row) {
    let low = 0;
    let high = this.segments.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.segments[middle].row <= row) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** What a row has: the numbers of its records, and of its difference. */
  pairAt(row) {
    const segment = this.segments[this.segmentAt(row)];
    const into = row - segment.row;
    const { how } = segment;
    return {
      how,
      segment,
      a: how === "extra" ? null : segment.a + into,
      b: how === "missing" ? null : segment.b + into,
      difference: ["equal", FOLDED].includes(how) ? null : segment.difference + into,
    };
  }

  render(row) {
    const pair = this.pairAt(row);
    if (pair.how === FOLDED) {
      const text = `${count(pair.segment.pairs, "equal record")}: from ${pair.a} of A, ${pair.b} of B`;
      const button = el("button", { type: "button", class: "fold", tabindex: -1, on: { click: () => this.unfold(row) } }, text);
      return { cells: [el("span", {}, button)], attributes: { class: "fold" } };
    }
    const side = (tape, at) => {
      if (at === null || at >= tape.length) return el("span", { class: "side absent" }, at === null ? "" : "(not on the page)");
      const kind = tape.kindOf(at);
      const fields = tape.fields(at, () => this.list.draw());
      return el("span", { class: `side ${classOf(kind)}` },
        el("span", { class: "seq" }, el("a", { href: this.app.link(tape, { record: at }), tabindex: -1 }, String(at))),
        el("span", { class: "kind" }, line(kind)),
        el("span", { class: "says" }, fields === undefined ? "…" : tape.hasFields(at) ? says(kind, fields) : ""));
    };
    const [a, b] = this.app.tapes;
    const sign = SIGNS[HOW.indexOf(pair.how)];
    return {
      cells: [side(a, pair.a), el("span", { class: "sign", title: pair.how }, sign), side(b, pair.b)],
      attributes: { class: `pair ${pair.how}` },
    };
  }

  unfold(row) {
    const { how, segment, a } = this.pairAt(row);
    if (how !== FOLDED) return;
    this.unfolded.add(segment.run);
    this.lay({ a });
  }

  selectedPair() {
    return this.list.selected < 0 ? undefined : this.pairAt(this.list.selected);
  }

  /** Selects the row of a pair, by its record of A or of B. */
  showPair({ a, b }) {
    const isIn = (it) => {
      const within = (from, at) => at !== null && at !== undefined && at >= from && at < from + it.pairs;
      return (it.how !== "extra" && within(it.a, a)) || (it.how !== "missing" && within(it.b, b));
    };
    const found = this.segments.find(isIn);
    if (!found) return this.list.show(-1);
    const into = a !== null && a !== undefined ? a - found.a : b - found.b;
    this.list.show(found.row + (found.how === FOLDED ? 0 : into));
  }

  follow(tape, at) {
    if (this.data) this.showPair(tape === this.app.tapes[0] ? { a: at } : { b: at });
  }

  async goToFirst() {
    await this.ready;
    const first = this.segments.find((it) => it.difference !== undefined && !["equal", FOLDED].includes(it.how));
    if (first) this.list.choose(first.row);
  }

  /** Moves to the next or previous difference. */
  step(by) {
    const next = this.list.selected + by;
    const isDifference = (row) => row >= 0 && row < this.list.count && this.pairAt(row).difference !== null;
    if (this.list.selected >= 0 && isDifference(next)) return this.list.choose(next);
    const here = this.list.selected < 0 ? (by > 0 ? -1 : this.segments.length) : this.segmentAt(this.list.selected);
    for (let n = here + by; n >= 0 && n < this.segments.length; n += by) {
      const { how, row, rows } = this.segments[n];
      if (!["equal", FOLDED].includes(how)) return this.list.choose(by > 0 ? row : row + rows - 1);
    }
  }

  async select(row) {
    const { app } = this;
    const pair = this.pairAt(row);
    if (pair.how === FOLDED) return;
    const [a, b] = app.tapes;
    const [tape, at] = pair.a === null ? [b, pair.b] : [a, pair.a];
    if (at >= tape.length) return;
    if (app.tape !== tape) app.setTape(tape);
    app.selected = at;
    app.views.records.follow(at);
    app.processes.reveal(tape.process[at]);
    app.processes.timeline.follow(at);
    app.address(at);
    const [inA, inB] = await Promise.all([pair.a === null ? null : a.fieldsOf(pair.a), pair.b === null ? null : b.fieldsOf(pair.b)]);
    if (this.list.selected !== row) return;
    byId("detail").replaceChildren(...pairParts(app, pair, inA, inB, this.data));
  }
}

const PAIR_TITLES = { equal: "Equal", changed: "Differs", missing: "Only on A", extra: "Only on B" };

function pairParts(app, pair, inA, inB, data) {
  const [a, b] = app.tapes;
  const link = (tape, at) => (at === null ? "" : [" ", el("a", { href: app.link(tape, { record: at }) }, `record ${at} of ${tape.letter.toUpperCase()}`)]);
  const found = pair.difference === null ? undefined : data.divergences[pair.difference];
  const parts = [el("h2", {}, PAIR_TITLES[pair.how], link(a, pair.a), link(b, pair.b))];
  if (pair.how === "changed") {
    const names = [...new Set([...Object.keys(inA), ...Object.keys(inB)])];
    const text = (fields, name) => (fields[name] === undefined ? "" : typeof fields[name] === "string" ? fields[name] : JSON.stringify(fields[name]));
    let differing = names.filter((name) => text(inA, name) !== text(inB, name)).map((name) => [name, text(inA, name), text(inB, name)]);
    // Those of the comparison name the very argument, or element.
    if (found) differing = found.fields.map((it) => [it.field, it.recorded, it.replay]);
    parts.push(el("table", { class: "differences" }, el("caption", {}, "Fields that differ"),
      el("thead", {}, el("tr", {}, ["Field", "A", "B"].map((name) => el("th", { scope: "col" }, name)))),
      el("tbody", {}, differing.map(([name, inOne, inOther]) => {
        const [one, other] = parted(inOne, inOther).map((parts) => parts.map(plain));
        return el("tr", {}, el("th", { scope: "row" }, line(name)), el("td", { class: "removed" }, one[0], el("mark", {}, one[1]), one[2]), el("td", { class: "added" }, other[0], el("mark", {}, other[1]), other[2]));
      }))));
    if (differing.length === 0) parts.push(el("p", { class: "note" }, "They differ in what the page leaves out."));
  }
  for (const content of found?.contents ?? []) parts.push(el("h3", {}, line(content.field)), diffParts(content));
  const times = [[a, pair.a], [b, pair.b]].filter(([, at]) => at !== null).map(([tape, at]) => [tape.letter.toUpperCase(), `${clock(tape.time[at])}${tape.processes[tape.process[at]] ? `, process ${nameOf(tape.processes[tape.process[at]])}` : ""}`]);
  parts.push(el("h3", {}, "Time and process"), fieldsParts(Object.fromEntries(times)));
  parts.push(el("h3", {}, pair.how === "extra" ? "Fields on B" : "Fields on A"), fieldsParts(inA ?? inB));
  if (data.header_differences.length > 0) {
    parts.push(table("Headers that differ (notes, not counted)", ["Field", "A", "B"], data.header_differences.map((row) => row.map(plain))));
  }
  return parts;
}
