"""Writes hostile bundles into the current folder: `hostile_bundles.py MODULE`. Prints the name of each, and of `good`."""

import hashlib
import json
import stat
import sys
import warnings
import zipfile

warnings.simplefilter("ignore")
with open(sys.argv[1], "rb") as file:
    WASM = file.read()
FILES = {"p.wasm": WASM, "t/a": b"a"}


def manifest(contents, **others):
    entry = lambda content: {"sha256": hashlib.sha256(content).hexdigest(), "len_bytes": len(content)}
    described = {"format": "1.0", "name": "h", "version": "1", "programs": {"p": {"module": "p.wasm"}}}
    described |= {"trees": {"t": "t"}, "files": {name: entry(content) for name, content in contents.items()}}
    return json.dumps({key: value for key, value in (described | others).items() if value is not None})


def bundle(name, entries=None, text=manifest(FILES), method=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(name, "w", method) as archive:
        if text is not None:
            archive.writestr("toolchain.json", text)
        for path, content in FILES.items() if entries is None else entries:
            archive.writestr(path, content)
    print(name)


def raw(name, content):
    with open(name, "wb") as file:
        file.write(content)
    print(name)


def special(path, mode):
    info = zipfile.ZipInfo(path)
    info.create_system, info.external_attr = 3, mode << 16
    return info


bundle("good")
with open("good", "rb") as file:
    good = file.read()

for number, path in enumerate(["../evil", "t/../../evil", "/tmp/evil", "t\\..\\evil", "C:evil", "t//evil", "./t/evil", "t/.",
                               "t/x\0y", "t/" + "d/" * 3000 + "x", "t/" + "n" * 300]):
    bundle(f"path-{number}", [("p.wasm", WASM), (path, b"a")], manifest({"p.wasm": WASM, path: b"a"}))
    bundle(f"more-{number}", [*FILES.items(), (path, b"a")])

bundle("missing", [("p.wasm", WASM)])
bundle("no-module", [("t/a", b"a")])
bundle("wrong-digest", [("p.wasm", WASM), ("t/a", b"b")])
bundle("longer", [("p.wasm", WASM), ("t/a", b"aa")])
bundle("shorter", [("p.wasm", WASM), ("t/a", b"")])
bundle("bomb", [("p.wasm", WASM), ("t/a", bytes(64 << 20))])
bundle("bomb-in-manifest", text=" " * (80 << 20) + manifest(FILES))
bundle("twice", [*FILES.items(), ("t/a", b"a")])
bundle("manifest-twice", [*FILES.items(), ("toolchain.json", manifest(FILES))])
bundle("link", [("p.wasm", WASM), (special("t/a", stat.S_IFLNK | 0o777), b"a")])
bundle("link-to-module", [(special("p.wasm", stat.S_IFLNK | 0o777), WASM), ("t/a", b"a")])
bundle("folder", [("p.wasm", WASM), ("t/a/", b"")])
bundle("file-and-folder", [*FILES.items(), ("t/a/b", b"a")], manifest(FILES | {"t/a/b": b"a"}))
bundle("itself", text=manifest(FILES | {"toolchain.json": b"x"}))
bundle("not-wasm", [("p.wasm", b"no"), ("t/a", b"a")], manifest({"p.wasm": b"no", "t/a": b"a"}))
bundle("unused-file", [*FILES.items(), ("u", b"u")], manifest(FILES | {"u": b"u"}))
bundle("no-manifest", text=None)
bundle("no-files", text=manifest(FILES, files=None))
bundle("no-programs", text=manifest(FILES, programs={}))
bundle("script-elsewhere", text=manifest(FILES, programs={"p": {"script": "u/x"}}))
bundle("script-missing", text=manifest(FILES, programs={"p": {"script": "t/x"}}))
bundle("bad-name", text=manifest(FILES, name="../h"))
bundle("other-format", text=manifest(FILES, format="2.0"))
bundle("unknown-field", text=manifest(FILES, mount="/"))
bundle("not-json", text="{")
bundle("lzma", method=zipfile.ZIP_LZMA)
raw("empty", b"")
raw("text", b"hello" * 100)
raw("short", good[:-30])
raw("prefixed", b"junk" * 100 + good)
raw("wrong-checksum", good.replace(b"PK\x01\x02", b"PK\x01\x02", 1)[:14] + b"\0\0\0\0" + good[18:-200] + good[-200:].replace(b"PK", b"PQ"))
