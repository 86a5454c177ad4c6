"""Reads a tape of belljar: prints `seq kind summary` for each record, then how many there are of each kind.

Usage: tape_reader.py TAPE. The format is described in tape-format.md. Contents in the store beside the tape are
checked by length, and by digest if the module `blake3` is there. Exit code 1 if something is wrong.
"""

import collections
import glob
import json
import os
import sys

try:
    from blake3 import blake3
except ImportError:
    blake3 = None

MAJOR = 1
LINE_BYTES_MAX = 16 << 20
PACK_START, PACKED_BYTES_MAX = b"belljar pack 1\n", 64 << 10
STAMPS = ("seq", "phase", "virtual_time_ms", "monotonic_ms", "turn", "kind")


class BadTape(Exception):
    pass


def records(file):
    """The records, after the header."""
    number = 0
    for number, line in enumerate(iter(lambda: file.readline(LINE_BYTES_MAX + 2), b""), 1):
        if len(line.rstrip(b"\n")) > LINE_BYTES_MAX:
            raise BadTape(f"line {number} is longer than {LINE_BYTES_MAX} bytes")
        try:
            record = json.loads(line)
            if number > 1:
                record["seq"], record["kind"]
            elif int(record["version"].split(".")[0]) != MAJOR:
                raise BadTape(f"the tape has version {record['version']}, and this reads {MAJOR}")
        except (ValueError, KeyError, TypeError, AttributeError):
            if number == 1 or line.endswith(b"\n"):
                raise BadTape(f"line {number} is no record, or no header") from None
            print(f"line {number} is cut off and left out", file=sys.stderr)
            return
        if number > 1:
            yield record
    if number == 0:
        raise BadTape("it is empty")


def packed(store):
    """Where the contents of packs are, by digest: the pack, the offset and the length."""
    places = {}
    for path in glob.glob(os.path.join(glob.escape(store), "*.pack")):
        with open(path, "rb") as pack:
            is_pack = pack.read(len(PACK_START)) == PACK_START
            while is_pack and len(head := pack.read(36)) == 36:
                length = int.from_bytes(head[32:], "little")
                if length > PACKED_BYTES_MAX or len(pack.read(length)) < length:
                    break
                places[head[:32].hex()] = path, pack.tell() - length, length
    return places


def check(store, packs, payload):
    """What is wrong with a payload of the store; None if nothing is, or if it is not kept."""
    name = payload["content_hash"]
    if "withheld_by" in payload:
        return None
    if len(name) != 64 or set(name) - set("0123456789abcdef"):
        return f"{name!r} is no digest"
    path, offset, length = packs.get(name, (os.path.join(store, name), 0, -1))
    try:
        with open(path, "rb") as file:
            file.seek(offset)
            content = file.read(length)
    except OSError as error:
        return f"{name}: {error.strerror}"
    if len(content) != payload["len_bytes"]:
        return f"{name} has {len(content)} bytes, not {payload['len_bytes']}"
    return f"{name} has another content" if blake3 and blake3(content).hexdigest() != name else None


def main(path):
    counts, wrong, store = collections.Counter(), [], path.removesuffix(".partial") + ".cas"
    packs = packed(store)
    with open(path, "rb") as file:
        for record in records(file):
            fields = {name: value for name, value in record.items() if name not in STAMPS}
            counts[record["kind"]] += 1
            print(record["seq"], record["kind"], json.dumps(fields)[:100])
            stored = [f for f in fields.values() if isinstance(f, dict) and "content_hash" in f and "len_bytes" in f]
            wrong += filter(None, (check(store, packs, payload) for payload in stored))
    for kind, count in sorted(counts.items()):
        print(f"{count:8} {kind}")
    if wrong:
        raise BadTape("; ".join(wrong))


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except (BadTape, OSError) as error:
        sys.exit(f"{sys.argv[1]}: {error}")
