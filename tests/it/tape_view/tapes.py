"""Writes tapes that no short run makes: a long one, and one whose every text tries to be code.

Usage: tapes.py long FILE RECORDS | hostile FILE [TURN]   (TURN: the payload to begin with)
"""

import json
import sys

HEADER = {"version": "1.16", "belljar_version": "0.1.0", "started_at_unix_ms": 2114380800000}

# What runs, loads or hides something where text is taken for HTML, for an attribute, for a script or for an address.
PAYLOADS = [
    "<script>globalThis.owned = 1</script>",
    "</script><script>globalThis.owned = 2</script>",
    "<img src=x onerror='globalThis.owned = 3'>",
    "\"><svg onload=globalThis.owned=4>",
    "javascript:globalThis.owned=5",
    "<!--<script>", "]]>", "--><script>globalThis.owned = 6</script>",
    "<iframe srcdoc='<script>parent.owned = 7</script>'></iframe>",
    "<meta http-equiv=refresh content='0;url=data:text/html,owned'>",
    "<style>* { display: none }</style>", "<base href='file:///'>", "<form action=x><button autofocus onfocus='owned=8'>",
    "${globalThis.owned = 9}", "`+(globalThis.owned=10)+`", "{{constructor.constructor('owned=11')()}}",
    "a\u202etxt.exe\u2066", "zero\u200bwidth", "\u001b]0;title\u0007\u001b[2J", "nul\u0000", "\u2028\u2029", "__proto__", "constructor",
    "&lt;b&gt;&#x3c;script&#x3e;", "x" * 100_000,
]


class Tape:
    def __init__(self, path, argv):
        self.file = open(path, "w", encoding="utf-8")
        self.seq = 0
        self.now = 0
        self.line({**HEADER, "argv": argv})

    def line(self, value):
        self.file.write(json.dumps(value, separators=(",", ":")) + "\n")

    def add(self, kind, phase="run", **fields):
        stamps = {"seq": self.seq, "phase": phase, "virtual_time_ms": min(HEADER["started_at_unix_ms"] + self.now, (1 << 63) - 1)}
        self.line({**stamps, "monotonic_ms": self.now, **fields, "kind": kind})
        self.seq += 1


def spawn(tape, pid, parent, program, args, **more):
    fields = {"pid": pid, "program": program, "args": args, "env": ["PWD=/worktree"], "mode": "wasi", "stdin": "inherited"}
    tape.add("process_spawn", **fields, **({"parent": parent} if parent else {}), **more)


def long(path, records):
    """A build: processes that look up, read and write files, print, and sleep."""
    tape = Tape(path, ["make", "-j1", "all"])
    tape.add("machine", phase="setup", config={"limits": {"memory_bytes_max": 1 << 32, "fuel": None}, "seed": 0})
    spawn(tape, 1, None, "make", ["-j1", "all"])
    pid = 1
    while tape.seq < records - 1:
        pid += 1
        spawn(tape, pid, 1, "cc", ["-c", f"src/part{pid % 97}/unit{pid}.c", "-o", f"build/unit{pid}.o"])
        for n in range(min(500, records - tape.seq - 4)):
            name, digest = f"/worktree/include/{n % 50}/header{(pid * 31 + n) % 20000}.h", f"{(pid * 31 + n) % 20000:064x}"
            if n % 5 == 0:
                tape.add("file_stat", turn=pid, path=f"/usr/include/missing{(pid + n) % 3000}.h", errno="noent")
            elif n % 5 == 1:
                tape.add("clock_sleep", turn=pid, duration_ns=1_000_000)
                tape.now += 1
            elif n % 5 == 2:
                tape.add("stream_write", pid=pid, fd=1 + n % 2, bytes={"text": f"unit{pid}.c:{n}: note: something about line {n * pid % 9973}\n"})
            else:
                tape.add("file_read", turn=pid, path=name, content_hash=digest, len_bytes=(pid * n) % 90000)
        tape.add("file_write", turn=pid, path=f"/worktree/build/unit{pid}.o", content_hash=f"{pid:064x}", len_bytes=pid * 10)
        tape.add("process_exit", pid=pid, status="exited", exit_code=0, duration_ms=100)
    tape.add("process_exit", pid=1, status="exited", exit_code=0, duration_ms=tape.now)


def hostile(path):
    """Every text of every kind is each of the payloads once."""
    tape = Tape(path, PAYLOADS)
    tape.add("machine", phase="setup", config={payload: {payload: PAYLOADS} for payload in PAYLOADS} | {
        "limits": {payload: payload for payload in PAYLOADS}, "mounts": [{"path": p, "source": p} for p in PAYLOADS] + [None, 7]})
    spawn(tape, 1, None, PAYLOADS[0], PAYLOADS)
    digest = "a" * 64
    for n, text in enumerate(PAYLOADS):
        pid = n + 2
        spawn(tape, pid, n + 1, text, PAYLOADS, argv0=text, profile=text, preopens=[{"path": text, "name": text, "reach": text}])
        # Two with one number, a parent that does not exist, and a child that is its own parent.
        spawn(tape, 4_000_000_000, 4_000_000_000, text, [text])
        tape.add("file_stat", turn=pid, path=text, errno=text)
        tape.add("dir_list", path=text, entries={"text": "\n".join(f"f {json.dumps(p)}" for p in PAYLOADS[:-1])})
        tape.add("link_read", path=text, target={"text": text})
        tape.add("file_read", path=text, content_hash=digest, len_bytes=(1 << 64) - 1, withheld_by=text)
        tape.add("file_write", path=text, content_hash=digest, len_bytes=5)
        tape.add("file_error", path=text, operation=text, errno=text)
        tape.add("file_delete", path=text)
        tape.add("file_rename", **{"from": text, "to": text})
        tape.add("stream_write", pid=pid, fd=1 + n % 2, bytes={"text": text})
        tape.add("stream_read", pid=pid, bytes={"text": text})
        tape.add("stream_error", pid=pid, fd=4_000_000_000, errno=text)
        tape.add("program_find", pid=pid, place=text, name=text, mode=text, error=text)
        tape.add("native", pid=pid, event="failed", message=text)
        tape.add("host_call", capability=text, operation=text, params={"text": text}, result={"text": text})
        tape.add("egress", surface=text, url=text, host=text, allowed=False, reason=text)
        tape.add("llm_call", model=text, request_hash=digest, request={"text": text}, response={"text": text})
        tape.add("change", phase="finalize", path=text, change=text, file_type=text, target=text, before_target=text,
                 renamed_from=text, origin=text, link_of=text, **{f"x{text}": text})
        tape.add("clock_read", clock=text, value_ns=(1 << 64) - 1)
        tape.add("clock_leak", capability_id=text, leak=text)
        tape.add(text, **{"text": text, "nested": {text: [text] * (1000 if len(text) < 1000 else 2)}})
        tape.add("process_exit", pid=pid, status=text, duration_ms=(1 << 64) - 1)
        # Time that runs backwards, and to its end.
        tape.now = [0, (1 << 64) - 1, 5][n % 3] if n % 7 == 6 else n
    said = [{"id": f"{n} {p}", "event_id": [n, (1 << 64) - 1][n == 3], "kind": ["note", "hypothesis", "friction", "mute"][n % 4], "evidence": p,
             "suggested_fix": p, "author": {"id": p, "kind": "agent"}, "timestamp": p, "links": [p, "javascript:owned=12"],
             **({"hypothesis_status": "active"} if n % 4 == 1 else {}), **({"friction_kind": p} if n % 4 == 2 else {})}
            for n, p in enumerate(PAYLOADS)]
    tape.file.close()
    with open(f"{path}.annotations.jsonl", "w", encoding="utf-8") as file:
        file.write(json.dumps({"schema_version": "1.0", "tape_path": "x", "tape_content_hash": "b" * 64}) + "\n")
        file.writelines(json.dumps(each) + "\n" for each in said)


if __name__ == "__main__":
    if sys.argv[1] == "long":
        long(sys.argv[2], int(sys.argv[3]))
    else:
        turn = int(sys.argv[3]) if len(sys.argv) > 3 else 0
        PAYLOADS[:] = PAYLOADS[turn:] + PAYLOADS[:turn]
        hostile(sys.argv[2])
