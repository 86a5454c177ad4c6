// The views of the run as a whole: what was printed, how it was configured and limited, and what was said of it.

class Output {
  constructor(panel, app) {
    this.app = app;
    this.hidden = new Set();
    const box = (fd, label) => {
      const input = el("input", { type: "checkbox", checked: fd !== 0 });
      if (fd === 0) this.hidden.add(0);
      input.addEventListener("change", () => {
        if (input.checked) this.hidden.delete(fd);
        else this.hidden.add(fd);
        this.lay();
      });
      return el("label", { class: `class fd${fd}` }, input, label);
    };
    this.facts = el("span", { class: "facts" });
    this.text = el("pre", { class: "output", tabindex: 0, role: "region", "aria-label": "Output" });
    panel.append(el("div", { class: "bar" }, el("div", { role: "group", "aria-label": "Streams" }, box(1, "stdout"), box(2, "stderr"), box(0, "stdin")), this.facts), this.text);
  }

  async setTape() {
    const { tape } = this.app;
    this.data = await tape.output();
    if (tape === this.app.tape) this.lay();
  }

  lay() {
    if (!this.data) return;
    const { tape, process } = this.app;
    const piece = (it) => {
      if (this.hidden.has(it.fd) || (process !== null && it.process !== process)) return "";
      const of = tape.processes[it.process];
      const title = `record ${it.at}${of ? `, process ${nameOf(of)}` : ""}, ${["stdin", "stdout", "stderr"][it.fd] ?? `fd ${it.fd}`}`;
      const note = it.note ? el("em", { class: "cut" }, `[${line(it.note)}]\n`) : "";
      return el("a", { class: `fd${it.fd}`, href: this.app.link(tape, { record: it.at }), title, tabindex: -1 }, plain(it.text), note);
    };
    const cut = this.data.left_out_bytes > 0 ? el("em", { class: "cut" }, `\n[${bytes(this.data.left_out_bytes)} are left out here]\n`) : "";
    this.text.replaceChildren(...this.data.head.map(piece), cut, ...this.data.tail.map(piece));
    if (this.text.textContent === "") this.text.append(el("em", { class: "cut" }, "nothing"));
    this.facts.textContent = bytes(this.data.bytes);
  }
}

class Run {
  constructor(panel, app) {
    this.app = app;
    this.page = el("div", { class: "run", tabindex: 0, role: "region", "aria-label": "The run" });
    panel.append(this.page);
  }

  setTape() {
    this.page.replaceChildren(...runParts(this.app.tape));
  }
}

function table(caption, head, rows, kind = "") {
  if (rows.length === 0) return "";
  const cell = (value, n) => (n === 0 ? el("th", { scope: "row" }, value) : el("td", {}, value));
  return el("table", { class: kind }, el("caption", {}, caption), el("thead", {}, el("tr", {}, head.map((name) => el("th", { scope: "col" }, name)))), el("tbody", {}, rows.map((row) => el("tr", {}, row.map(cell)))));
}

/** A limit as people read it: its name ends with its unit. */
function limit(name, value) {
  if (value === null || value === undefined) return "none";
  if (typeof value === "object") return line(JSON.stringify(value));
  if (name.includes("bytes_max")) return Number(value) > 2 ** 60 ? "none" : bytes(Number(value));
  return typeof value === "number" ? number.format(value) : line(value);
}

function runParts(tape) {
  const { summary } = tape;
  const kinds = new Map();
  for (let at = 0; at < tape.length; at += 1) kinds.set(tape.kind[at], (kinds.get(tape.kind[at]) ?? 0) + 1);
  const reached = tape.processes.filter((it) => it.status !== undefined && !["exited", "signalled", "trapped", "failed"].includes(it.status) && !it.status.startsWith("signal_"));
  const natives = [...new Set(tape.processes.filter((it) => it.mode === "native").map((it) => it.program))];
  const parts = [
    table("Run", ["", ""], [
      ["Command", summary.argv.map((arg) => line(quoted(arg))).join(" ")],
      ["Started", dateOf(summary.started_at_unix_ms)],
      ["Took", `${duration(summary.last_ms)} on its own clock`],
      ["Records", number.format(summary.records)],
      ["Processes", `${number.format(tape.processes.length)}${summary.processes_left_out > 0 ? `, and ${number.format(summary.processes_left_out)} that are not listed` : ""}`],
      ["Programs of the host", natives.length > 0 ? natives.slice(0, 50).map(line).join(", ") : "none"],
      ["Ended by a limit", reached.length > 0 ? reached.slice(0, 20).map((it) => `${nameOf(it)}: ${line(it.status)}`).join("; ") : "no"],
      ["Tape", `version ${line(summary.version)}, written by belljar ${line(summary.belljar_version)}`],
    ]),
  ];
  summary.configs.forEach((config, n) => {
    const title = summary.configs.length > 1 ? ` of machine ${n + 1}` : "";
    const flat = (limits, prefix = "") => Object.entries(limits ?? {}).flatMap(([name, value]) => (value && typeof value === "object" ? flat(value, `${prefix}${name}.`) : [[line(prefix + name), limit(name, value)]]));
    parts.push(table(`Limits${title}`, ["Limit", "Value"], flat(config.limits)));
    const mounts = Array.isArray(config.mounts) ? config.mounts : [];
    parts.push(table(`Mounts${title}`, ["Path", "Source", ""], mounts.map((mount) => [line(mount?.path), line(mount?.source), mount?.read_only ? "read-only" : "writable"])));
    const rest = Object.entries(config).filter(([name]) => !["limits", "mounts"].includes(name));
    parts.push(table(`Configuration${title}`, ["Field", "Value"], rest.map(([name, value]) => [line(name), line(typeof value === "string" ? value : JSON.stringify(value))])));
  });
  parts.push(table("Records of each kind", ["Kind", "Records"], [...kinds].sort((a, b) => b[1] - a[1]).map(([kind, many]) => [line(tape.kindNames[kind]), number.format(many)])));
  return parts;
}

function dateOf(ms) {
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? `${ms} ms since 1970` : `${date.toISOString()} on its own clock`;
}

class Annotations {
  constructor(panel, app) {
    this.app = app;
    this.page = el("div", { class: "annotations", tabindex: 0, role: "region", "aria-label": "Annotations" });
    panel.append(this.page);
  }

  setTape() {
    const { tape } = this.app;
    const { annotations, annotations_left_out: more } = tape.summary;
    this.page.replaceChildren(...annotations.map((said) => annotationParts(this.app, tape, said)));
    if (more > 0) this.page.append(el("p", { class: "note" }, `${count(more, "annotation")} left out`));
    if (annotations.length === 0) {
      const command = `belljar annotate ${quoted(tape.summary.name)} --event SEQ --kind note --author NAME --evidence TEXT`;
      this.page.append(el("p", {}, "Nothing is annotated. ", el("code", {}, line(command)), " annotates a record."));
    }
  }
}

function annotationParts(app, tape, said) {
  const span = said.span ? ` of records ${said.span.start_event_id} to ${said.span.end_event_id}` : "";
  const what = said.hypothesis_status ?? said.friction_kind;
  const row = (name, value) => (value === undefined ? "" : el("p", {}, el("b", {}, `${name}: `), plain(value)));
  return el("article", { class: `annotation ${["incorrect", "friction"].includes(said.kind) ? "bad" : ""}` },
    el("h3", {}, line(said.kind), what ? `, ${line(what)}` : "", " ", el("a", { href: app.link(tape, { record: said.event_id }) }, `record ${said.event_id}`), span),
    row("Evidence", said.evidence),
    row("Instead", said.suggested_fix),
    said.links?.length ? row("See", said.links.join(", ")) : "",
    el("p", { class: "quiet" }, `${line(said.id)}, by ${line(said.author?.id)} (${line(said.author?.kind)}), ${line(said.timestamp)}`));
}
