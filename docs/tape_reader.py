"""Reads a tape of belljar: prints `seq kind summary` for each record, then how many there are of each kind.

Usage: tape_reader.py TAPE. The format is described in tape-format.md. Contents in the store beside the tape are
checked by length, and by digest if the module `blake3` is there. Exit code 1 if something is wrong.
"""

import collections
import json
import os
import sys

try:
    from blake3 import blake3
except ImportError:
    blake3 = None

MAJOR = 1
LINE_BYTES_MAX = 16 << 20
STAMPS = ("seq", "phase", "virtual_time_ms", "monotonic_ms", "kind")


class BadTape(Exception):
    pass


def lines(file):
    """Each line with its number, and whether it has an end."""
    number = 0
    while line := file.readline(LINE_BYTES_MAX + 2):
        number += 1
        if len(line.rstrip(b"\n")) > LINE_BYTES_MAX:
            raise BadTape(f"line {number} is longer than {LINE_BYTES_MAX} bytes")
        yield number, line, line.endswith(b"\n")


def records(file):
    """The records, after the header."""
    numbered = lines(file)
    try:
        header = json.loads(next(numbered)[1])
        major = int(header["version"].split(".")[0])
    except (StopIteration, ValueError, KeyError, TypeError, AttributeError):
        raise BadTape("line 1 is no header of a tape") from None
    if major != MAJOR:
        raise BadTape(f"the tape has version {header['version']}, and this reads {MAJOR}")
    for number, line, is_ended in numbered:
        try:
            record = json.loads(line)
            record["seq"], record["kind"]
        except (ValueError, KeyError, TypeError):
            if is_ended:
                raise BadTape(f"line {number} is no record") from None
            print(f"line {number} is cut off and left out", file=sys.stderr)
            return
        yield record


def check(store, payload):
    """What is wrong with a payload of the store; None if nothing is, or if it is not kept."""
    name = payload["content_hash"]
    if "withheld_by" in payload or len(name) != 64 or set(name) - set("0123456789abcdef"):
        return None if "withheld_by" in payload else f"{name!r} is no digest"
    try:
        with open(os.path.join(store, name), "rb") as file:
            content = file.read()
    except OSError as error:
        return f"{name}: {error.strerror}"
    if len(content) != payload["len_bytes"]:
        return f"{name} has {len(content)} bytes, not {payload['len_bytes']}"
    if blake3 and blake3(content).hexdigest() != name:
        return f"{name} has another content"
    return None


def main(path):
    counts, wrong = collections.Counter(), []
    with open(path, "rb") as file:
        for record in records(file):
            fields = {name: value for name, value in record.items() if name not in STAMPS}
            counts[record["kind"]] += 1
            print(record["seq"], record["kind"], json.dumps(fields)[:100])
            stored = [f for f in fields.values() if isinstance(f, dict) and "content_hash" in f and "len_bytes" in f]
            wrong += filter(None, (check(path.removesuffix(".partial") + ".cas", payload) for payload in stored))
    for kind, count in sorted(counts.items()):
        print(f"{count:8} {kind}")
    if wrong:
        raise BadTape("; ".join(wrong))


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except (BadTape, OSError) as error:
        sys.exit(f"{sys.argv[1]}: {error}")
