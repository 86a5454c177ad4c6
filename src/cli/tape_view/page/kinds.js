// What records say, in a line each, and the classes by which they are filtered and coloured.

const CLASSES = [
  ["read", "Reads"],
  ["write", "Writes"],
  ["stream", "Output and input"],
  ["process", "Processes"],
  ["time", "Time and chance"],
  ["host", "Host and network"],
  ["trouble", "Failures"],
  ["other", "Other"],
];

const CLASS_OF = {
  file_stat: "read", dir_list: "read", link_read: "read", file_read: "read",
  file_write: "write", file_delete: "write", file_rename: "write", change: "write",
  stream_read: "stream", stream_write: "stream", stream_poll: "stream",
  process_spawn: "process", process_exit: "process", process_wait: "process", pipe: "process", program_find: "process",
  clock_read: "time", clock_sleep: "time", random: "time",
  host_call: "host", egress: "host", llm_call: "host", native: "host",
  file_error: "trouble", stream_error: "trouble", timeout: "trouble", clock_leak: "trouble",
};

const classOf = (kind) => CLASS_OF[kind] ?? "other";

/** Bytes of a record in a line. */
function payload(value) {
  if (value === undefined) return "";
  if (typeof value?.text === "string") return line(value.text);
  const withheld = value?.withheld_by ? `, withheld by ${line(value.withheld_by)}` : "";
  return `${bytes(Number(value?.len_bytes ?? 0))}, ${short(value?.content_hash)}${withheld}`;
}

const content = (f) => `${bytes(Number(f.len_bytes))}${f.content_hash ? `, ${short(f.content_hash)}` : ""}`;

const SAYS = {
  machine: () => "the machine is configured",
  clock_read: (f) => `${line(f.clock)} shows ${f.value_ns} ns`,
  clock_sleep: (f) => `${duration(Number(f.duration_ns) / 1e6)} pass`,
  clock_leak: (f) => `${line(f.capability_id)} read the ${line(f.leak)} clock of the host`,
  random: (f) => `${bytes(Number(f.len_bytes))}`,
  file_stat: (f) => `${line(f.path)}: ${f.errno ? line(f.errno) : `${line(f.file_type)}${f.file_type === "file" ? `, ${bytes(Number(f.len_bytes))}` : ""}`}`,
  dir_list: (f) => `${line(f.path)}: ${typeof f.entries?.text === "string" ? f.entries.text.split("\n").filter(Boolean).map(line).join("  ") : payload(f.entries)}`,
  link_read: (f) => `${line(f.path)} → ${payload(f.target)}`,
  file_read: (f) => `${line(f.path)}: ${content(f)}`,
  file_error: (f) => `${line(f.operation)} ${line(f.path)}: ${line(f.errno)}`,
  file_write: (f) => `${line(f.path)}: ${content(f)}`,
  file_delete: (f) => line(f.path),
  file_rename: (f) => `${line(f.from)} → ${line(f.to)}`,
  stream_read: (f) => payload(f.bytes),
  stream_write: (f) => `${f.fd === 2 ? "stderr" : f.fd === 1 ? "stdout" : `fd ${f.fd}`}: ${payload(f.bytes)}`,
  stream_poll: (f) => (f.ready ? "standard input is readable" : "standard input is not readable"),
  stream_error: (f) => `fd ${f.fd}: ${line(f.errno)}`,
  process_spawn: (f) => [f.program, ...(f.args ?? [])].map((arg) => line(quoted(arg))).join(" "),
  program_find: (f) => `${line(f.name)}: ${f.mode ? line(f.mode) : f.error ? line(f.error) : "not found"}`,
  process_exit: (f) => (f.exit_code === undefined ? line(f.status) : `${line(f.status)} with code ${f.exit_code}`),
  process_wait: (f) => `child ${f.child} ended with status ${f.status}`,
  pipe: (f) => `pipe ${f.pipe}: ${f.writer} → ${f.reader}`,
  timeout: (f) => `the run reached its timeout at step ${f.steps}`,
  native: (f) => `${line(f.event)} ${f.bytes ? payload(f.bytes) : f.message ? line(f.message) : f.exit_code !== undefined ? `code ${f.exit_code}` : ""}`,
  change: (f) => `${line(f.change)} ${line(f.path)}`,
  llm_call: (f) => `${line(f.model)}: ${payload(f.response)}`,
  egress: (f) => `${f.allowed ? "allowed" : "refused"}: ${line(f.url || f.surface)} (${line(f.reason)})`,
  host_call: (f) => `${line(f.capability)}.${line(f.operation)} ${payload(f.params)} → ${payload(f.result)}`,
};

/** What a record says, in a line. */
function says(kind, fields) {
  try {
    const say = Object.hasOwn(SAYS, kind) ? SAYS[kind] : JSON.stringify;
    return say === JSON.stringify ? line(JSON.stringify(fields)) : say(fields);
  } catch {
    return line(JSON.stringify(fields));
  }
}
