// The page: which tape, which view, which record.

const KEYS = [
  ["/", "search the records"],
  ["n, p", "next or previous record in the list, or difference of two tapes"],
  ["1 … 6", "the views, in their order"],
  ["↑ ↓, j k, Page Up, Page Down, Home, End", "move in a list"],
  ["+ − 0, comma, full stop", "zoom and move the timeline, in the list of processes; or Ctrl and the wheel, Shift and the wheel"],
  ["← →", "close or open a branch of the processes"],
  ["z", "zoom to the selected process"],
  ["a", "show all processes"],
  ["Esc", "leave the search"],
  ["?", "this help"],
];

/** Paths of each list of a process. */
const TOUCHED_MAX = 100;

class App {
  async start() {
    const letters = ["a", "b"].filter((letter) => byId(`${letter}-summary`));
    this.tapes = await Promise.all(letters.map((letter) => Tape.load(letter)));
    this.tape = this.tapes[0];
    this.selected = null;
    this.process = null;
    this.processes = new Processes(this);
    this.makeViews();
    this.makeTools();
    this.showTape();
    window.addEventListener("hashchange", () => this.goToHash());
    window.addEventListener("beforeprint", () => this.print());
    document.addEventListener("keydown", (event) => this.pressed(event));
    if (!this.goToHash() && this.tapes.length > 1) await this.views.compare.goToFirst();
    byId("loading").remove();
    document.documentElement.dataset.ready = "true";
  }

  makeViews() {
    const kinds = [["records", "Records", Records], ["files", "Files", Files], ["output", "Output", Output], ["run", "Run and limits", Run], ["annotations", "Annotations", Annotations]];
    if (this.tapes.length > 1) kinds.unshift(["compare", "Differences", Compare]);
    this.views = {};
    this.tabs = [];
    for (const [name, label, View] of kinds) {
      const tab = el("button", { type: "button", role: "tab", id: `tab-${name}`, "aria-controls": `panel-${name}`, on: { click: () => this.showView(name) } }, label);
      const panel = el("div", { role: "tabpanel", id: `panel-${name}`, class: "panel", "aria-labelledby": `tab-${name}`, hidden: true });
      byId("tabs").append(tab);
      byId("panels").append(panel);
      this.views[name] = new View(panel, this);
      this.tabs.push(name);
    }
    byId("tabs").addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!by) return;
      event.preventDefault();
      const next = (this.tabs.indexOf(this.view) + by + this.tabs.length) % this.tabs.length;
      this.showView(this.tabs[next]);
      byId(`tab-${this.view}`).focus();
    });
    this.showView(this.tabs[0]);
  }

  makeTools() {
    const group = byId("tapes");
    group.hidden = this.tapes.length < 2;
    this.tapes.forEach((tape) => {
      const name = `${tape.letter.toUpperCase()}: ${line(tape.summary.name)}`;
      group.append(el("button", { type: "button", "data-tape": tape.letter, on: { click: () => this.setTape(tape) } }, name));
    });
    let due;
    byId("search").addEventListener("input", (event) => {
      clearTimeout(due);
      due = setTimeout(() => {
        if (event.target.value.trim() !== "") this.showView("records");
        this.views.records.setQuery(event.target.value);
      }, 150);
    });
    byId("help").addEventListener("click", () => byId("keys").showModal());
    byId("keys-list").append(...KEYS.flatMap(([key, what]) => [el("dt", {}, key), el("dd", {}, what)]));
    const themes = ["auto", "light", "dark"];
    byId("theme").addEventListener("click", (event) => {
      const root = document.documentElement;
      const next = themes[(themes.indexOf(root.dataset.theme ?? "auto") + 1) % themes.length];
      root.dataset.theme = next;
      event.target.textContent = `Theme: ${next}`;
      this.processes.timeline.draw();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.processes.timeline.draw());
  }

  showView(name) {
    this.view = name;
    for (const each of this.tabs) {
      const isShown = each === name;
      byId(`panel-${each}`).hidden = !isShown;
      const tab = byId(`tab-${each}`);
      tab.setAttribute("aria-selected", String(isShown));
      tab.tabIndex = isShown ? 0 : -1;
    }
    this.views[name].list?.resize();
  }

  setTape(tape) {
    if (tape === this.tape) return;
    this.tape = tape;
    this.selected = null;
    this.process = null;
    this.showTape();
  }

  showTape() {
    const { summary } = this.tape;
    const [badge, kind] = this.tape.processes.length > 0 ? ending(this.tape.processes[0]) : ["no process", ""];
    document.title = this.tapes.map((tape) => line(tape.summary.name)).join(" and ");
    byId("title").textContent = line(summary.name);
    byId("facts").replaceChildren(
      el("span", { class: `badge ${kind}` }, badge), ` ${duration(summary.last_ms)} of virtual time, ${count(summary.records, "record")}, `,
      summary.processes_left_out > 0 ? `more than ${number.format(this.tape.processes.length)} processes` : this.tape.processes.length === 1 ? "1 process" : `${number.format(this.tape.processes.length)} processes`,
    );
    byId("command").replaceChildren(el("code", {}, summary.argv.map((arg) => line(quoted(arg))).join(" ")));
    const notes = this.notes();
    byId("notes").hidden = notes.length === 0;
    byId("notes").replaceChildren(...notes.map((note) => el("li", {}, note)));
    for (const button of byId("tapes").children) button.setAttribute("aria-pressed", String(button.dataset.tape === this.tape.letter));
    const said = summary.annotations.length;
    byId("tab-annotations").textContent = said > 0 ? `Annotations (${number.format(said)})` : "Annotations";
    byId("detail").replaceChildren(el("p", { class: "quiet" }, "Select a record or a process."));
    this.processes.setTape();
    for (const view of Object.values(this.views)) view.setTape();
    byId("all-processes").hidden = true;
  }

  /** What is missing on the tape or on the page. */
  notes() {
    const { summary } = this.tape;
    const { shown, detailed } = summary.columns;
    return [
      summary.damage && `The tape cannot be read further: ${line(summary.damage)}`,
      summary.is_cut_off && "The last line of the tape is cut off and left out.",
      summary.is_partial && "This tape is not finished: it is being written, or its writer was killed.",
      shown < summary.records && `The page lists the first ${count(shown, "record")} of ${number.format(summary.records)}.`,
      detailed < shown && `Records from ${detailed} on are listed without their fields: a larger --max-page has them.`,
      summary.processes_left_out > 0 && `${number.format(summary.processes_left_out)} processes are not listed.`,
    ].filter(Boolean);
  }

  link(tape, { record }) {
    return `#${this.tapes.length > 1 ? `tape=${tape.letter}&` : ""}record=${record}`;
  }

  /** Goes where the address says; whether it says something. */
  goToHash() {
    const asked = new URLSearchParams(location.hash.slice(1));
    const tape = this.tapes.find((each) => each.letter === asked.get("tape"));
    if (tape) this.setTape(tape);
    const at = Number(asked.get("record") ?? NaN);
    if (!Number.isSafeInteger(at) || at < 0 || at >= this.tape.length) return false;
    if (!["records", "compare", "output"].includes(this.view)) this.showView("records");
    this.select(at);
    return true;
  }

  /** Selects record `at` of the present tape. */
  select(at, { from } = {}) {
    this.selected = at;
    if (from !== this.views.records) this.views.records.follow(at);
    if (from !== this.views.compare) this.views.compare?.follow(this.tape, at);
    this.processes.reveal(this.tape.process[at]);
    this.processes.timeline.follow(at);
    this.address(at);
    this.showDetail(at);
  }

  /** Puts record `at` into the address: browsers refuse to do so many times a second. */
  address(at) {
    clearTimeout(this.addressDue);
    const address = this.link(this.tape, { record: at });
    this.addressDue = setTimeout(() => history.replaceState(null, "", address), 200);
  }

  setProcess(process) {
    this.process = process;
    byId("all-processes").hidden = process === null;
    if (process === null) this.processes.follow(null);
    this.views.records.setProcess(process);
    this.views.files.lay();
    this.views.output.lay();
    if (process !== null) this.showProcess(process);
  }

  showRecordsOf(path, name) {
    this.showView("records");
    this.views.records.setPath(path, name);
  }

  async showProcess(n) {
    const process = this.tape.processes[n];
    if (!process) {
      const text = "Records of the machine: before its first process, after its last, and what the tape gives no process for.";
      return byId("detail").replaceChildren(el("h2", {}, "No process"), el("p", {}, text));
    }
    const link = (at) => el("a", { href: this.link(this.tape, { record: at }) }, `record ${at}`);
    const start = await this.tape.fieldsOf(process.start);
    const parent = this.tape.processes[process.parent];
    const counts = new Map();
    for (const at of this.tape.recordsOf(n)) {
      const [, label] = CLASSES.find(([name]) => name === classOf(this.tape.kindOf(at)));
      counts.set(label, (counts.get(label) ?? 0) + 1);
    }
    const { paths } = await this.tape.files();
    if (n !== this.process) return;
    const [badge, kind] = ending(process);
    byId("detail").replaceChildren(...[
      el("h2", {}, `Process ${nameOf(process)} `, el("span", { class: `badge ${kind}` }, badge)),
      el("pre", { class: "text", tabindex: 0 }, commandOf(process)),
      fieldsParts({
        mode: process.mode, ...(process.profile ? { profile: process.profile } : {}),
        parent: parent ? nameOf(parent) : "none",
        start: clock(process.start_ms), end: process.end_ms === undefined ? "none" : clock(process.end_ms),
        ...Object.fromEntries([...counts].map(([label, many]) => [label.toLowerCase(), number.format(many)])),
      }),
      el("p", {}, link(process.start), process.end === undefined ? "" : [" to ", link(process.end)].flat(), " ", el("button", { type: "button", on: { click: () => this.zoomTo(n) } }, "Zoom to it")),
      this.touched(n, paths, "Read", ["file_read"]),
      this.touched(n, paths, "Wrote", ["file_write", "file_delete", "file_rename"]),
      this.touched(n, paths, "Looked up and not found", ["file_stat"], (at) => this.tape.isAbsent(at)),
      el("h3", {}, "Environment"), fieldsParts(Object.fromEntries((start.env ?? []).map((pair) => String(pair).split(/=(.*)/s)))),
      el("h3", {}, "Directories"), fieldsParts(Object.fromEntries((start.preopens ?? []).map((it) => [it?.path, `${it?.name} (${it?.reach})`]))),
    ].flat());
  }

  /** The paths of records of some kinds of process `n`, each at its first record. */
  touched(n, paths, title, kinds, isMeant = () => true) {
    const { tape } = this;
    const first = new Map();
    for (const at of tape.recordsOf(n)) {
      if (kinds.includes(tape.kindOf(at)) && tape.path[at] >= 0 && !first.has(tape.path[at]) && isMeant(at)) first.set(tape.path[at], at);
    }
    if (first.size === 0) return "";
    const rows = [...first].slice(0, TOUCHED_MAX).map(([path, at]) => el("li", {}, el("a", { href: this.link(tape, { record: at }) }, line(paths[path]))));
    const more = first.size > TOUCHED_MAX ? el("li", { class: "note" }, `${count(first.size - TOUCHED_MAX, "more path")}: see Files`) : "";
    return [el("h3", {}, `${title} (${number.format(first.size)})`), el("ul", { class: "records" }, rows, more)];
  }

  async showDetail(at) {
    const { tape } = this;
    const kind = tape.kindOf(at);
    const fields = await tape.fieldsOf(at);
    const files = await tape.files();
    if (tape !== this.tape || at !== this.selected) return;
    const process = tape.processes[tape.process[at]];
    const step = (by, label) => el("button", { type: "button", disabled: at + by < 0 || at + by >= tape.length, on: { click: () => this.select(at + by) } }, label);
    const digests = Object.entries(fields).flatMap(([name, value]) => {
      if (/content_hash$/.test(name)) return [[name, value]];
      return value && typeof value === "object" && value.content_hash ? [[name, value.content_hash]] : [];
    });
    const change = kind === "change" ? files.changes.find((each) => each.at === at) : undefined;
    const path = tape.path[at] >= 0 ? files.paths[tape.path[at]] : undefined;
    byId("detail").replaceChildren(
      el("h2", {}, `Record ${at} `, el("span", { class: `kind ${classOf(kind)}` }, line(kind))),
      el("p", { class: "steps" }, step(-1, "Previous"), step(1, "Next"), path === undefined ? "" : el("button", { type: "button", on: { click: () => this.showRecordsOf(tape.path[at], path) } }, "This path"), process ? el("button", { type: "button", on: { click: () => this.goToProcess(tape.process[at]) } }, "This process") : ""),
      fieldsParts({ time: clock(tape.time[at]), process: process ? nameOf(process) : "none", phase: tape.phaseOf(at) }),
      ...(tape.annotated.get(at) ?? []).map((said) => annotationParts(this, tape, said)),
      el("h3", {}, "Fields"),
      tape.hasFields(at) ? fieldsParts(fields) : el("p", { class: "note" }, "The page does not have them: a larger --max-page has."),
      ...(change ? changeParts(this, tape, change) : digests.flatMap(([name, digest]) => [el("h3", {}, line(name)), ...contentParts(tape, digest, files)])),
    );
    byId("detail").scrollTop = 0;
  }

  zoomTo(n) {
    const records = this.tape.recordsOf(n);
    if (records.length > 0) this.processes.timeline.zoomTo(records[0], records[records.length - 1]);
  }

  goToProcess(n) {
    this.processes.follow(n);
    this.setProcess(n);
  }

  pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || byId("keys").open) return;
    const search = byId("search");
    if (event.key === "Escape" && document.activeElement === search) {
      // Chromium would empty it, and the list would stay as it is.
      event.preventDefault();
      return search.blur();
    }
    if (/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) && event.target.type !== "checkbox") return;
    const tab = this.tabs[Number(event.key) - 1];
    const run = {
      "/": () => search.focus(),
      "?": () => byId("keys").showModal(),
      a: () => this.setProcess(null),
      n: () => this.step(1),
      p: () => this.step(-1),
      z: () => this.process !== null && this.zoomTo(this.process),
    }[event.key] ?? (tab && (() => this.showView(tab)));
    if (!run) return;
    event.preventDefault();
    run();
  }

  /** Moves to the next or previous record that is listed, or difference. */
  step(by) {
    if (this.view === "compare") return this.views.compare.step(by);
    const { list } = this.views.records;
    this.showView("records");
    if (list.count > 0) list.choose(Math.max(0, Math.min(list.selected + by, list.count - 1)));
  }

  /** Fills what is printed: lists on the screen have no more than the rows in view. */
  print() {
    byId("print").replaceChildren(...printParts(this));
  }
}

/** Fields of a record, nested ones as JSON. */
/** Characters of a field that may be too high for the view, and scroll. */
const SCROLLS_FROM = 500;

function fieldsParts(fields) {
  return el("dl", { class: "fields" }, Object.entries(fields).flatMap(([name, value]) => {
    const text = typeof value === "string" ? value : typeof value?.text === "string" && Object.keys(value).length === 1 ? value.text : JSON.stringify(value, null, 1);
    return [el("dt", {}, line(name)), el("dd", text.length < SCROLLS_FROM && !text.includes("\n") ? {} : { tabindex: 0 }, plain(text))];
  }));
}

/** Rows of each list on paper. */
const PRINTED_MAX = 500;

function printParts(app) {
  const { tape } = app;
  const { rows } = app.views.records;
  const many = rows ? rows.length : tape.length;
  const printed = [];
  for (let n = 0; n < Math.min(many, PRINTED_MAX); n += 1) {
    const at = rows ? rows[n] : n;
    const process = tape.processes[tape.process[at]];
    const fields = tape.fields(at);
    printed.push([String(at), clock(tape.time[at]), process ? nameOf(process) : "", line(tape.kindOf(at)), fields ? says(tape.kindOf(at), fields) : ""]);
  }
  const changes = app.views.files.data?.changes ?? [];
  const output = app.views.output.text.cloneNode(true);
  const rest = (all, noun) => (all > PRINTED_MAX ? el("p", {}, `The first ${PRINTED_MAX} of ${count(all, noun)}.`) : "");
  return [
    ...runParts(tape),
    table("Processes", ["Process", "Start", "End", "Status", "Command"], tape.processes.slice(0, PRINTED_MAX).map((it) => [String(it.pid), clock(it.start_ms), it.end_ms === undefined ? "" : clock(it.end_ms), ending(it)[0], commandOf(it)]), "listing"),
    rest(tape.processes.length, "row"),
    changes.length > 0 ? el("h2", {}, "Changes") : "",
    ...changes.slice(0, PRINTED_MAX).flatMap((change) => [el("h3", {}, line(change.path)), ...changeParts(app, tape, change)]),
    rest(changes.length, "change"),
    el("h2", {}, "Output"), output,
    ...tape.summary.annotations.map((said) => annotationParts(app, tape, said)),
    table("Records", ["Record", "Time", "Process", "Kind", ""], printed, "listing"),
    rest(many, "record"),
  ];
}

globalThis.belljar = new App();
globalThis.belljar.start().catch((error) => {
  byId("loading").textContent = `The page cannot be shown: ${error}. It needs a browser of 2023 or newer.`;
});
