// The files: what was looked up, read and written, and what differs in the end, as diffs.

const FILE_FILTERS = [
  ["changed", "Changed"],
  ["written", "Written"],
  ["read", "Read"],
  ["missing", "Not found"],
  ["all", "All"],
];

class Files {
  constructor(panel, app) {
    this.app = app;
    this.filter = "changed";
    this.name = el("input", { type: "search", "aria-label": "Paths that contain", placeholder: "Paths that contain…", spellcheck: "false" });
    this.name.addEventListener("input", () => this.lay());
    this.buttons = FILE_FILTERS.map(([name, label]) => el("button", { type: "button", on: { click: () => this.setFilter(name) } }, label));
    this.note = el("p", { class: "note", hidden: true });
    const host = el("div", { id: "file-list" });
    this.detail = el("div", { class: "file-detail", tabindex: 0, role: "region", "aria-label": "File" });
    panel.append(
      el("div", { class: "bar" }, el("div", { role: "group", "aria-label": "Files" }, this.buttons), this.name),
      this.note,
      el("div", { class: "split" }, host, this.detail),
    );
    this.list = new List(host, {
      rowHeight: ROW_HEIGHT,
      label: "Files",
      render: (row) => this.render(this.rows[row]),
      select: (row) => this.choose(this.rows[row]),
    });
    this.rows = [];
  }

  async setTape() {
    const { tape } = this.app;
    this.chosen = null;
    this.detail.replaceChildren();
    this.data = await tape.files();
    if (tape !== this.app.tape) return;
    const { paths, changes } = this.data;
    this.flags = new Uint8Array(paths.length);
    this.by = tape.kindNames.map((kind) => ({ file_read: 1, file_write: 2, file_delete: 2, file_rename: 2, change: 4 })[kind] ?? 0);
    this.changes = new Map();
    changes.forEach((change) => {
      const path = tape.path[change.at];
      if (path >= 0) this.changes.set(path, [...(this.changes.get(path) ?? []), change]);
    });
    const notes = [];
    if (this.data.paths_are_cut) notes.push("there are more paths than the page lists");
    if (this.data.changes_left_out > 0) notes.push(`${count(this.data.changes_left_out, "change")} left out`);
    this.note.hidden = notes.length === 0;
    this.note.textContent = notes.join("; ");
    this.setFilter(changes.length > 0 ? "changed" : "all");
  }

  setFilter(name) {
    this.filter = name;
    FILE_FILTERS.forEach(([each], n) => this.buttons[n].setAttribute("aria-pressed", String(each === name)));
    this.lay();
  }

  /** Lists the paths that the filter, the process and the text leave. */
  lay() {
    if (!this.data) return;
    const { tape, process } = this.app;
    this.flags.fill(0);
    const records = process === null ? null : tape.recordsOf(process);
    const length = records ? records.length : tape.length;
    for (let n = 0; n < length; n += 1) {
      const at = records ? records[n] : n;
      const path = tape.path[at];
      if (path >= 0) this.flags[path] |= this.by[tape.kind[at]] | (tape.isAbsent(at) ? 8 : 16);
    }
    if (process !== null) for (const path of this.changes.keys()) if (this.flags[path] & 18) this.flags[path] |= 4;
    const mask = { changed: 4, written: 2, read: 1, all: 31 }[this.filter];
    const text = this.name.value.toLowerCase();
    const isListed = (path) => {
      if (this.filter === "missing") return this.flags[path] === 8;
      return (this.flags[path] & mask) !== 0;
    };
    this.rows = [];
    this.data.paths.forEach((path, n) => {
      if (isListed(n) && (text === "" || path.toLowerCase().includes(text))) this.rows.push(n);
    });
    this.rows.sort((a, b) => (this.data.paths[a] < this.data.paths[b] ? -1 : 1));
    this.list.setCount(this.rows.length);
    if (this.chosen !== null) this.list.show(this.rows.indexOf(this.chosen));
    else if (this.rows.length > 0 && this.filter === "changed") this.choose(this.rows[0]);
  }

  render(path) {
    const flags = this.flags[path];
    const mark = (bit, letter, title) => el("span", { class: flags & bit ? "on" : "off", title: flags & bit ? title : undefined }, flags & bit ? letter : "·");
    const change = this.changes.get(path)?.map(({ change: how }) => line(how)).join(", ");
    return {
      cells: [
        el("span", { class: "flags" }, mark(1, "R", "read"), mark(2, "W", "written"), mark(4, "±", "changed in the end")),
        el("span", { class: "path", title: line(this.data.paths[path]) }, line(this.data.paths[path])),
        change ? el("span", { class: "badge" }, change) : "",
      ],
      attributes: { class: "file" },
    };
  }

  async choose(path) {
    this.chosen = path;
    this.list.show(this.rows.indexOf(path));
    const { tape } = this.app;
    const name = this.data.paths[path];
    const parts = [el("h3", {}, line(name))];
    for (const change of this.changes.get(path) ?? []) parts.push(...changeParts(this.app, tape, change));
    const records = [];
    for (let at = 0; at < tape.length && records.length < 200; at += 1) if (tape.path[at] === path) records.push(at);
    parts.push(el("p", {}, el("button", { type: "button", on: { click: () => this.app.showRecordsOf(path, name) } }, "List its records")));
    const rows = [];
    const seen = new Set();
    for (const at of records) {
      const fields = await tape.fieldsOf(at);
      const process = tape.processes[tape.process[at]];
      rows.push(el("li", {}, el("a", { href: this.app.link(tape, { record: at }) }, `#${at}`), ` ${clock(tape.time[at])} ${process ? nameOf(process) : ""} ${line(tape.kindOf(at))}: ${says(tape.kindOf(at), fields).replace(`${line(name)}: `, "")}`));
      if (fields.content_hash && ["file_read", "file_write"].includes(tape.kindOf(at)) && !seen.has(fields.content_hash)) {
        seen.add(fields.content_hash);
        rows.push(el("li", { class: "content" }, contentParts(tape, fields.content_hash, this.data)));
      }
    }
    parts.push(el("ul", { class: "records" }, rows));
    if (this.chosen === path) this.detail.replaceChildren(...parts);
  }
}

/** A change with its diff. */
function changeParts(app, tape, change) {
  const { at, diff, note } = change;
  const facts = [];
  if (change.renamed_from) facts.push(`renamed from ${line(change.renamed_from)}`);
  if (change.origin) facts.push(`its content is that of ${line(change.origin)}`);
  if (change.link_of) facts.push(`another name of ${line(change.link_of)}`);
  if (change.before_target !== undefined || change.target !== undefined) facts.push(`target ${line(change.before_target ?? "none")} → ${line(change.target ?? "none")}`);
  if (change.before_executable !== undefined && change.executable !== undefined && change.before_executable !== change.executable) facts.push(change.executable ? "is executable now" : "is not executable any more");
  const lengths = [change.before_len_bytes, change.len_bytes].map((len) => (len === undefined ? "nothing" : bytes(len)));
  if (change.file_type === "file") facts.push(`${lengths[0]} → ${lengths[1]}`);
  return [
    el("p", { class: "change" }, el("strong", {}, line(change.change)), ` ${line(change.file_type ?? "")} `, facts.join("; "), " ", el("a", { href: app.link(tape, { record: at }) }, `record ${at}`)),
    diff ? diffParts(diff) : "",
    note ? el("p", { class: "note" }, line(note)) : "",
  ];
}

const DIFF_CLASSES = { "+": "added", "-": "removed", "@": "head", "\\": "head" };

/** A diff, a line each. */
function diffParts(diff) {
  if (!diff.is_text) return el("p", { class: "note" }, line(diff.text));
  if (diff.text === "") return "";
  const lines = diff.text.replace(/\n$/, "").split("\n");
  return el("pre", { class: "diff", tabindex: 0 }, lines.map((text) => el("span", { class: DIFF_CLASSES[text[0]] ?? "same" }, `${plain(text)}\n`)));
}

/** The beginning of a content. */
function contentParts(tape, digest, data) {
  const found = data.contents[digest];
  const command = `belljar tape cat ${quoted(tape.summary.name)} ${short(digest)}`;
  if (!found) return [el("p", { class: "note" }, "The page does not show this content. ", el("code", {}, line(command)))];
  const cut = found.text !== undefined && new TextEncoder().encode(found.text).length < found.len_bytes;
  return [
    found.text !== undefined ? el("pre", { class: "text", tabindex: 0 }, plain(found.text)) : "",
    found.hex !== undefined ? el("pre", { class: "hex", tabindex: 0 }, found.hex) : "",
    found.missing !== undefined ? el("p", { class: "note" }, line(found.missing)) : "",
    cut || found.hex !== undefined ? el("p", { class: "note" }, `The beginning of ${bytes(found.len_bytes)}. All of it: `, el("code", {}, line(command))) : "",
  ];
}
