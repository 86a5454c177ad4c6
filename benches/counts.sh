#!/usr/bin/env bash
# Instructions of each row of benches/counts.txt, counted by valgrind: exact where times are noisy.
#
#   counts.sh            prints the table
#   counts.sh --check    compares with benches/counts.txt: a row that is more than 5 % above it fails, by name
#   counts.sh --write    replaces benches/counts.txt
#   counts.sh --dev ...  counts the binary that `cargo test` builds, with benches/counts-dev.txt. The gate does so
#
# It needs cargo and valgrind. BELLJAR names a binary to count instead of the one that .ci/build-release builds.
# A row counts two runs of a guest and divides the difference by the additional operations, so that its start does
# not count.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")
guests=$root/guest-examples
table=$here/counts.txt
dev=
if [ "${1:-}" = --dev ]; then
    dev=1
    table=$here/counts-dev.txt
    shift
fi
# Percent above the table that a row may have.
tolerance=5

die() {
    echo "counts.sh: $*" >&2
    exit 2
}

case $#:${1:-} in
    0:) ;;
    1:--check | 1:--write) ;;
    *) die "usage: counts.sh [--dev] [--check | --write]" ;;
esac
command -v valgrind >/dev/null || die "valgrind is needed and was not found"
[ "$(uname -m)" = x86_64 ] || die "the table is for x86-64"

if [ -n "$dev" ] && [ -z "${BELLJAR:-}" ]; then
    # The binary that the gate counts. Tests switch on features of libraries, as examples do, and incremental builds
    # inline less: either changes rows by more than 5 %.
    (cd "$root" && CARGO_INCREMENTAL=0 cargo build --quiet --bin belljar --examples)
    BELLJAR=${CARGO_TARGET_DIR:-$root/target}/debug/belljar
fi
belljar=${BELLJAR:-$("$root/.ci/build-release")}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export BELLJAR_CACHE_DIR=$work/cache BELLJAR_HOME=$work/home
# With it, each ended process has a backtrace.
unset RUST_BACKTRACE
mkdir "$work/tree"
cd "$work/tree"

count() { # ARGUMENTS... -> instructions of belljar with them
    # Compiles what is not in the cache: code depends on the processor's features, and valgrind has fewer.
    valgrind --quiet --tool=none "$belljar" "$@" >/dev/null 2>&1 || true
    valgrind --tool=callgrind --callgrind-out-file=/dev/null "$belljar" "$@" 2>"$work/said" >/dev/null ||
        die "belljar $* fails under valgrind: $(cat "$work/said")"
    awk '/Collected :/ { print $4 }' "$work/said"
}

row() { # NAME FEW MANY ARGUMENTS... (N stands for the number of operations)
    local name=$1 few=$2 many=$3 first second
    shift 3
    first=$(count "${@/#N/$few}")
    second=$(count "${@/#N/$many}")
    printf '%s\t%d\n' "$name" $(((second - first) / (many - few)))
}

fsbench() { # NAME FEW MANY OPERATION
    row "$1" "$2" "$3" run --clock real "$guests/fsbench.wasm" "$4" N
}

spawns() { # -> a script that starts `true` N times
    local times=$1 script=
    for ((i = 0; i < times; i++)); do script+='env true;'; done
    echo "$script"
}

counts() {
    printf 'command line, hello\t%d\n' "$(count run "$guests/hello.wasm")"
    printf 'command line, shell\t%d\n' "$(count sh -c :)"
    fsbench 'stat' 1000 5000 stat_hit
    fsbench 'stat of a missing name' 1000 5000 stat_miss
    fsbench 'open, read 1 KiB, close' 1000 3000 open_read
    fsbench 'create, write 1 KiB, close' 1000 3000 create
    fsbench 'create and list an entry' 1000 3000 readdir
    fsbench 'clock' 10000 50000 clock
    fsbench 'write 1 MiB by 64 KiB' 8 40 seqwrite
    fsbench 'read 1 MiB by 4 KiB' 8 40 read4k
    local few many
    few=$(count sh -c "$(spawns 10)")
    many=$(count sh -c "$(spawns 50)")
    printf 'start of two processes\t%d\n' $(((many - few) / 40))
}

case ${1:-} in
    '') counts ;;
    --write)
        counts >"$work/table"
        mv "$work/table" "$table"
        ;;
    --check)
        counts >"$work/table"
        awk -F '\t' -v tolerance=$tolerance '
            NR == FNR { known[$1] = $2; next }
            !($1 in known) { print "counts.sh: " $1 " is not in the table"; bad = 1; next }
            {
                change = ($2 - known[$1]) * 100 / known[$1]
                printf "%-28s %10d %10d %+6.1f %%\n", $1, known[$1], $2, change
                if (change > tolerance) { above = above "\n  " $1; bad = 1 }
            }
            END {
                if (above) print "counts.sh: more than " tolerance " % above the table:" above
                exit bad
            }
        ' "$table" "$work/table"
        ;;
esac
