#!/usr/bin/env bash
# Rebuilds every committed .wasm, byte for byte, from the C and WAT sources in guest-examples/,
# toolchains/demo/, toolchains/box/ and tests/guests/, and from those in Rust in tests/guests/rust/ and guest-examples/rust/.
#
#   build.sh            rebuild in place
#   build.sh --check    rebuild aside, name each committed file that differs, exit 1 if any does
#
# The C compiler is the clang of `belljar install clang`, which belljar runs: the programs are compiled under the bell
# jar that they are for. BELLJAR names a belljar to use instead of the one that `cargo build` builds. The WAT assembler
# comes from PyPI at a pinned version, Rust from `rustup`; a Python that has it is used as it is. All else is kept in target/guest-tools.
set -euo pipefail

wasmtime_version=48.0.0 # package `wasmtime`: only its WAT assembler is used
rust_version=1.95.0

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")
folders=(guest-examples guest-examples/rust/wasip1 guest-examples/rust/wasip2 toolchains/demo toolchains/box tests/guests)

die() {
    echo "build.sh: $*" >&2
    exit 2
}

# --- tools ---------------------------------------------------------------------------------------

system_python=$(command -v python3 || command -v python) || die "python3 is needed and was not found"

has_package() { # PYTHON PACKAGE VERSION
    "$1" -c 'import importlib.metadata as m, sys; sys.exit(m.version(sys.argv[1]) != sys.argv[2])' \
        "$2" "$3" 2>/dev/null
}

python_with() { # PACKAGE VERSION -> prints a Python that can import exactly that version
    if has_package "$system_python" "$1" "$2"; then
        echo "$system_python"
        return
    fi
    local python=$tools/venv/bin/python
    if [ ! -d "$tools/venv" ]; then
        "$system_python" -m venv "$tools/venv" >&2 ||
            die "cannot create $tools/venv (is the venv module installed?)"
    fi
    [ -x "$python" ] || python=$tools/venv/Scripts/python.exe
    if ! has_package "$python" "$1" "$2"; then
        echo "installing $1 $2 into $tools/venv" >&2
        "$python" -m pip install --quiet --disable-pip-version-check "$1==$2" >&2 ||
            die "cannot install $1==$2"
    fi
    echo "$python"
}

# --- one file ------------------------------------------------------------------------------------

# The stack lies below the data, so running off its end traps. 64 KiB keep the smallest memory at two
# pages, which is what a start has to zero.
stack_of() { # SOURCE
    case $1 in
        guest-examples/deep.c) echo 16777216 ;;
        guest-examples/minimake.c) echo 1048576 ;;
        # As deep as a path of 4096 bytes leads.
        toolchains/box/box.c) echo 2097152 ;;
        tests/guests/* | toolchains/demo/*) echo 131072 ;;
        *) echo 65536 ;;
    esac
}

# Programs that start others, ask the host, or must not take a relative path for an absolute one. The library comes before the program, and so before the C library, some
# of whose functions it replaces.
library_for() { # SOURCE -> arguments for the compiler
    case $1 in
        guest-examples/ask.c | guest-examples/procs.c | guest-examples/cc-driver.c | guest-examples/minimake.c | guest-examples/spawnbench.c | tests/guests/*_with_libbelljar.c | toolchains/*)
            echo -Iguest-examples/libbelljar/include -Iguest-examples/include guest-examples/libbelljar/libbelljar.c
            ;;
    esac
    case $1 in
        toolchains/box/box.c) echo toolchains/box/*/*.c ;;
    esac
}

build_c() { # SOURCE OUTPUT, both relative to the root
    # shellcheck disable=SC2046 # several words, none of which holds a space
    "$belljar" run --quiet --apply cc --target=wasm32-wasip1 -std=c11 -O2 -s -Wall -Wextra -Werror \
        -Wl,--stack-first -Wl,-z,stack-size="$(stack_of "$1")" $(library_for "$1") -o "$2" "$1"
}

build_wat() { # SOURCE OUTPUT
    "$wat_python" -c 'import sys, wasmtime
open(sys.argv[2], "wb").write(wasmtime.wat2wasm(open(sys.argv[1], encoding="utf-8").read()))' "$1" "$2"
}


build_rust() { # WORKSPACE TARGET FOLDER SUFFIX PACKAGE...: builds programs in Rust into FOLDER
    local workspace=$1 target=$2 folder=$3 suffix=$4 package file built
    shift 4
    [ "$(rustc --version | cut -d ' ' -f 2)" = $rust_version ] ||
        die "rustc $rust_version is needed for $workspace: run \`rustup toolchain install $rust_version\`, and set RUSTUP_TOOLCHAIN to it"
    [ -e "$(rustc --print target-libdir --target "$target")" ] ||
        die "the target $target is needed for $workspace: run \`rustup target add $target\`"
    # shellcheck disable=SC2046 # two words for each package, none of which holds a space
    RUSTFLAGS="--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo --remap-path-prefix=$root=/belljar" \
        cargo build --quiet --locked --release --target "$target" $(printf -- '-p %s ' "$@") \
        --manifest-path "$workspace/Cargo.toml" --target-dir "$tools/rust/${workspace//\//-}"
    mkdir -p "$folder"
    for package in "$@"; do
        # A file name of this repository has no hyphens.
        file=$folder/${package//-/_}$suffix.wasm
        built=$tools/rust/${workspace//\//-}/$target/release/$package.wasm
        # Cargo spells a library, as those for WASI 0.3 are, without hyphens.
        [ -e "$built" ] || built=$(dirname "$built")/${package//-/_}.wasm
        cp "$built" "$file"
        chmod 644 "$file"
    done
}

build_all_rust() { # FOLDER: builds the programs in Rust below FOLDER
    local tests=$1/tests/guests examples=$1/guest-examples/rust
    build_rust tests/guests/rust wasm32-wasip2 "$tests" "" exports http-calls preview2-calls preview3-calls process-calls
    build_rust guest-examples/rust wasm32-wasip1 "$tests" _wasip1 commands
    build_rust guest-examples/rust wasm32-wasip2 "$tests" _wasip2 commands
    build_rust guest-examples/rust wasm32-wasip1 "$examples/wasip1" "" ask pipeline
    build_rust guest-examples/rust wasm32-wasip2 "$examples/wasip2" "" ask pipeline
}

output_of() { # SOURCE -> the .wasm beside it; a .wat that shares its name with a .c gets `_wat`
    case $1 in
        *.c) echo "${1%.c}.wasm" ;;
        *.wat) if [ -e "${1%.wat}.c" ]; then echo "${1%.wat}_wat.wasm"; else echo "${1%.wat}.wasm"; fi ;;
    esac
}

# --- all files -----------------------------------------------------------------------------------

build_all() { # FOLDER: builds into the same layout below FOLDER
    local source output folder
    for folder in "${folders[@]}"; do
        mkdir -p "$1/$folder"
        for source in "$folder"/*.c "$folder"/*.wat; do
            [ -e "$source" ] || continue
            output=$(output_of "$source")
            case $source in
                *.c) build_c "$source" "$1/$output" ;;
                *.wat) build_wat "$source" "$1/$output" ;;
            esac
            chmod 644 "$1/$output"
            expect_no_path "$1/$output" "$1"
        done
    done
    build_all_rust "$1"
    for output in "$1"/tests/guests/*.wasm "$1"/guest-examples/rust/*/*.wasm; do
        expect_no_path "$output" "$1"
    done
}

# The promise is about bytes: a path of this machine in them would break it elsewhere.
expect_no_path() { # FILE FOLDER
    if LC_ALL=C grep -qaF -e "$root" -e "$2" -e /.cargo/ "$1"; then
        die "$1 contains a path of this machine"
    fi
}

compare() { # FOLDER: the committed files against those built below FOLDER
    local folder file status=0
    for folder in "${folders[@]}"; do
        for file in "$1/$folder"/*.wasm; do
            file=$folder/${file##*/}
            if [ ! -e "$file" ]; then
                echo "missing: $file"
                status=1
            elif ! cmp -s "$file" "$1/$file"; then
                echo "differs: $file"
                status=1
            fi
        done
        for file in "$folder"/*.wasm; do
            if [ -e "$file" ] && [ ! -e "$1/$file" ]; then
                echo "no source: $file"
                status=1
            fi
        done
    done
    return $status
}

mode=${1:-build}
case $#:$mode in
    0:build | 1:--check) ;;
    *) die "usage: build.sh [--check]" ;;
esac

belljar=${BELLJAR:+$(realpath "$BELLJAR")}
cd "$root"
tools=target/guest-tools
mkdir -p "$tools"
wat_python=$(python_with wasmtime "$wasmtime_version")
if [ -z "$belljar" ]; then
    cargo build --quiet
    belljar=${CARGO_TARGET_DIR:-target}/debug/belljar
fi
export BELLJAR_HOME=$root/$tools/home BELLJAR_CACHE_DIR=$root/$tools/cache
if ! "$belljar" toolchain inspect clang >/dev/null 2>&1 || [ -n "$("$belljar" toolchain outdated)" ]; then
    "$belljar" install clang >&2
fi

# Built aside and moved when all of it compiled: a failed build leaves the committed files alone.
new=$(mktemp -d "$tools/new.XXXXXX")
trap 'rm -rf "$new"' EXIT
build_all "$new"
if [ "$mode" = --check ]; then
    if ! compare "$new"; then
        echo "build.sh: the files above are not what their sources build; run guest-examples/build.sh" >&2
        exit 1
    fi
    echo "build.sh: every .wasm is what its source builds"
else
    for folder in "${folders[@]}"; do
        for file in "$new/$folder"/*.wasm; do
            [ ! -e "$file" ] || mv "$file" "$folder/"
        done
    done
fi
