// Text on the page. Nothing of a tape is ever parsed as HTML: texts become text nodes, and characters that would hide
// text, or show it in another order, are spelled out.

const MISLEADING =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u0600-\u0605\u061c\u06dd\u070f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb]|[\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]|[\ud800-\udfff]/gu;

/** `text` with characters that mislead spelled out. Line ends and tabs stay. */
function plain(text) {
  return String(text).replace(MISLEADING, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
}

/** As `plain`, in one line. */
function line(text) {
  return plain(text).replace(/\n/g, "\\n").replace(/\t/g, "\\t");
}

/** An element. Properties are set, never parsed; children are elements or texts. */
function el(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (key === "class") made.className = value;
    else if (key === "on") for (const [event, run] of Object.entries(value)) made.addEventListener(event, run);
    else if (key === "style") Object.assign(made.style, value);
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== undefined && child !== null && child !== false));
  return made;
}

const byId = (id) => document.getElementById(id);

const number = new Intl.NumberFormat("en-US");

/** `1 record`, `2,000 records`. */
function count(many, noun) {
  return `${number.format(many)} ${noun}${many === 1 ? "" : "s"}`;
}

/** Milliseconds as people read them. */
function duration(ms) {
  if (ms < 1000) return `${number.format(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(3).replace(/\.?0+$/, "")} s`;
  const s = Math.floor(ms / 1000);
  const parts = [[Math.floor(s / 86_400), "d"], [Math.floor(s / 3600) % 24, "h"], [Math.floor(s / 60) % 60, "min"], [s % 60, "s"]];
  return parts.filter(([value]) => value > 0).slice(0, 2).map(([value, unit]) => `${number.format(value)} ${unit}`).join(" ");
}

/** A time of a clock, to the millisecond. */
function clock(ms) {
  if (ms < 1000) return `${ms} ms`;
  const two = (value) => String(value).padStart(2, "0");
  const s = Math.floor(ms / 1000);
  const [days, hours, minutes] = [Math.floor(s / 86_400), Math.floor(s / 3600) % 24, Math.floor(s / 60) % 60];
  const rest = `${two(s % 60)}.${String(Math.floor(ms % 1000)).padStart(3, "0")}`;
  if (days > 0) return `${number.format(days)} d ${two(hours)}:${two(minutes)}:${rest}`;
  return hours > 0 ? `${hours}:${two(minutes)}:${rest}` : minutes > 0 ? `${minutes}:${rest}` : `${Number(rest).toFixed(3)} s`;
}

/** Both texts in three parts: what they begin with alike, what differs, what they end with alike. */
function parted(a, b) {
  let head = 0;
  const most = Math.min(a.length, b.length);
  while (head < most && a[head] === b[head]) head += 1;
  let tail = 0;
  while (tail < most - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail += 1;
  // A character of two units stays whole.
  if (head > 0 && /[\ud800-\udbff]/.test(a[head - 1])) head -= 1;
  if (tail > 0 && /[\udc00-\udfff]/.test(a[a.length - tail])) tail -= 1;
  const parts = (text) => [text.slice(0, head), text.slice(head, text.length - tail), text.slice(text.length - tail)];
  return [parts(a), parts(b)];
}

/** Bytes as people read them. */
function bytes(many) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  let value = many;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return unit === 0 ? count(many, "byte") : `${Number(value.toFixed(1))} ${units[unit]}`;
}

/** The first digits of a digest. */
const short = (digest) => String(digest).slice(0, 12);

/** `text` quoted for a shell, if it needs that. */
function quoted(text) {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${String(text).replace(/'/g, "'\\''")}'`;
}
