// A tape as the page has it: columns of all records at once, and blocks of their fields when they are looked at.

/** Blocks that are kept unpacked. */
const BLOCKS_KEPT = 64;

async function unpacked(id) {
  const text = byId(id)?.textContent ?? "";
  let packed;
  if (Uint8Array.fromBase64) {
    packed = Uint8Array.fromBase64(text);
  } else {
    const chars = atob(text);
    packed = new Uint8Array(chars.length);
    for (let at = 0; at < chars.length; at += 1) packed[at] = chars.charCodeAt(at);
  }
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

async function unpackedText(id) {
  return new TextDecoder().decode(await unpacked(id));
}

/** Numbers of seven bits a byte; `each` gets each one with its place. */
function eachNumber(column, length, each) {
  let at = 0;
  for (let place = 0; place < length; place += 1) {
    let value = 0;
    let scale = 1;
    let byte;
    do {
      byte = column[at];
      at += 1;
      value += (byte & 0x7f) * scale;
      scale *= 128;
    } while (byte >= 0x80);
    each(place, value);
  }
}

class Tape {
  static async load(letter) {
    const tape = new Tape();
    tape.letter = letter;
    tape.summary = JSON.parse(await unpackedText(`${letter}-summary`));
    const { columns } = tape.summary;
    const all = await unpacked(`${letter}-columns`);
    const ends = [];
    columns.lens.reduce((sum, len) => (ends.push(sum + len), sum + len), 0);
    const column = (n) => all.subarray(n === 0 ? 0 : ends[n - 1], ends[n]);
    tape.length = columns.shown;
    tape.kindNames = columns.kinds;
    tape.kind = column(0);
    tape.state = column(1);
    tape.time = new Float64Array(tape.length);
    tape.process = new Int32Array(tape.length);
    tape.path = new Int32Array(tape.length);
    let now = 0;
    eachNumber(column(2), tape.length, (at, step) => (tape.time[at] = now += step));
    eachNumber(column(3), tape.length, (at, value) => (tape.process[at] = value - 1));
    eachNumber(column(4), tape.length, (at, value) => (tape.path[at] = value - 1));
    tape.processes = tape.summary.processes;
    tape.annotated = new Map();
    for (const said of tape.summary.annotations) {
      const of = tape.annotated.get(said.event_id) ?? [];
      of.push(said);
      tape.annotated.set(said.event_id, of);
    }
    tape.blocks = new Map();
    tape.waiting = new Map();
    return tape;
  }

  /** `setup`, `run` or `finalize`. */
  phaseOf(at) {
    return ["setup", "run", "finalize"][this.state[at] & 3];
  }

  /** Whether a lookup found nothing. */
  isAbsent(at) {
    return (this.state[at] & 4) !== 0;
  }

  /** Whether something did not work. */
  isTrouble(at) {
    return (this.state[at] & 8) !== 0;
  }

  kindOf(at) {
    return this.kindNames[this.kind[at]];
  }

  hasFields(at) {
    return at < this.summary.columns.detailed;
  }

  /** The fields of a record if they are unpacked; otherwise unpacks them and then runs `then`. */
  fields(at, then) {
    if (!this.hasFields(at)) return {};
    const n = Math.floor(at / this.summary.columns.block_records);
    const block = this.blocks.get(n);
    if (!block) {
      const wait = this.block(n);
      if (then) wait.then(then);
      return undefined;
    }
    return block[at % this.summary.columns.block_records];
  }

  async fieldsOf(at) {
    if (!this.hasFields(at)) return {};
    const { block_records } = this.summary.columns;
    return (await this.block(Math.floor(at / block_records)))[at % block_records];
  }

  block(n) {
    const kept = this.blocks.get(n);
    if (kept) return Promise.resolve(kept);
    let wait = this.waiting.get(n);
    if (!wait) {
      wait = unpackedText(`${this.letter}-block-${n}`).then((text) => {
        const block = JSON.parse(text);
        this.waiting.delete(n);
        this.blocks.set(n, block);
        if (this.blocks.size > BLOCKS_KEPT) this.blocks.delete(this.blocks.keys().next().value);
        return block;
      });
      this.waiting.set(n, wait);
    }
    return wait;
  }

  /** The paths, contents and changes. */
  files() {
    this.filesRead ??= unpackedText(`${this.letter}-files`).then(JSON.parse);
    return this.filesRead;
  }

  /** The standard streams. */
  output() {
    this.outputRead ??= unpackedText(`${this.letter}-output`).then(JSON.parse);
    return this.outputRead;
  }

  /** The records of each process, and at -1 those of none. */
  recordsOf(process) {
    if (!this.byProcess) {
      const starts = new Int32Array(this.processes.length + 2);
      for (let at = 0; at < this.length; at += 1) starts[this.process[at] + 2] += 1;
      for (let n = 1; n < starts.length; n += 1) starts[n] += starts[n - 1];
      const next = starts.slice();
      const sorted = new Int32Array(this.length);
      for (let at = 0; at < this.length; at += 1) sorted[next[this.process[at] + 1]++] = at;
      this.byProcess = (n) => sorted.subarray(starts[n + 1], n + 2 < starts.length ? starts[n + 2] : sorted.length);
    }
    return this.byProcess(process);
  }
}

/** How a process is called on the page. */
function nameOf(process) {
  const name = line(process.program) || "(no name)";
  return `${process.pid} ${name.split("/").pop() || name}`;
}
