#!/usr/bin/env bash
# The time of runs in folders of 1,000, 30,000 and 100,000 files: of runs that read ten of them, and of runs that read all.
# Milliseconds, medians of whole processes, those of a row in turn; `native` is the same command of this system, where there is
# one.
#
#   large-folders.sh    needs cc and python3. BELLJAR names a binary to use instead of the one that .ci/build-release
#                       builds; ROUNDS the number of rounds (7); COUNTS the numbers of files ("1000 30000 100000")
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")
belljar=$(realpath "${BELLJAR:-$(cd "$root" && .ci/build-release)}")
rounds=${ROUNDS:-7}
# On the disk that the project is on: a temporary folder may well be in memory.
mkdir -p "$root/target"
work=$(mktemp -d "$root/target/large.XXXXXX")
trap 'rm -rf "$work"' EXIT
cc -std=c11 -O2 -o "$work/alternate" "$here/alternate.c"
export BELLJAR_CACHE_DIR=$work/cache BELLJAR_HOME=$work/home LC_ALL=C

fill() { # FOLDER COUNT
    python3 - "$1" "$2" <<'PYTHON'
import os, sys

folder, count = sys.argv[1], int(sys.argv[2])
for number in range(count):
    if number % 100 == 0:
        directory = f"{folder}/d{number // 100}"
        os.makedirs(directory)
    with open(f"{directory}/f{number % 100}", "w") as file:
        file.write(f"line of file {number}\n" * 8)
PYTHON
}

table=()
row() { # WHAT COMMAND [-- NATIVE COMMAND]: in the current directory
    local what=$1 times
    shift
    times=$("$work/alternate" "$rounds" "$@" | awk '{ printf "%.1f|", $1 / 1000 }')
    IFS='|' read -r -a times <<<"$times"
    table+=("$count|$what|${times[0]}|${times[1]:-}")
}

belljar_sh=("$belljar" sh --quiet --no-background)
ten='d0/f0 d0/f1 d1/f2 d2/f3 d3/f4 d4/f5 d5/f6 d6/f7 d7/f8 d8/f9'
native_record() { # SCRIPT TAPE: records what a script does, anew each time
    rm -rf "$2" "$2.cas"
    "$belljar" record --quiet --no-background --tape "$2" sh -c "$1"
}
export -f native_record
export belljar

for count in ${COUNTS:-1000 30000 100000}; do
    echo "$count files" >&2
    fill "$work/$count" "$count"
    cd "$work/$count"
    # What changes within the granularity of the disk's clock is looked at again.
    sleep 3
    row 'cat of ten files' "${belljar_sh[@]}" -c "cat $ten" -- sh -c "cat $ten"
    row 'the same with --diff, one changed' "${belljar_sh[@]}" --diff -c "cat $ten; echo new >d3/f4"
    row 'the same with --apply' "${belljar_sh[@]}" --apply -c "cat $ten; date >d3/f5"
    row 'verify of ten files' "$belljar" verify --no-background sh -c "cat $ten"
    row 'find of all files' "${belljar_sh[@]}" -c 'find . -type f | wc -l' -- sh -c 'find . -type f | wc -l'
    row 'grep -r in all files' "${belljar_sh[@]}" -c 'grep -r nothing . || true' -- sh -c 'grep -r nothing . || true'
    row 'grep -r, recorded' bash -c "native_record 'grep -r nothing . || true' $work/tape"
    rm -rf "$work/tape" "$work/tape.cas"
    "$belljar" sandbox create --id ten >/dev/null
    row 'session: cat of ten files' "$belljar" sandbox exec ten sh -c "cat $ten"
    row 'session: create and remove' sh -c "'$belljar' sandbox create --id other >/dev/null && '$belljar' sandbox rm other >/dev/null"
    "$belljar" sandbox exec ten sh -c 'find . -type f | wc -l' >/dev/null
    row 'session: the same after find of all' "$belljar" sandbox exec ten sh -c "cat $ten"
    row 'session: diff, one changed' "$belljar" sandbox diff ten
    "$belljar" sandbox exec ten sh -c 'grep -r nothing . || true' >/dev/null
    row 'session: the same after grep of all' "$belljar" sandbox exec ten sh -c "cat $ten"
    "$belljar" sandbox rm ten >/dev/null
    cd "$work"
    rm -rf "${work:?}/$count" "$work/home"
done

echo "date      $(date +%F)"
echo "machine   $(nproc) cores, $(uname -sr), $(df -PT "$work" | awk 'NR == 2 { print $2 }')"
echo "load      $(cut -d' ' -f1-3 /proc/loadavg)"
printf '%s\n' "${table[@]}" | awk -F'|' '
    !($1 in counts) { counts[$1]; order[++n] = $1 }
    !($2 in rows) { rows[$2]; names[++m] = $2 }
    { ours[$1, $2] = $3; native[$1, $2] = $4 == "" ? "-" : $4 }
    END {
        printf "%-38s", "ms"
        for (i = 1; i <= n; i++) printf " %9s %9s", order[i], "native"
        print ""
        for (j = 1; j <= m; j++) {
            printf "%-38s", names[j]
            for (i = 1; i <= n; i++) printf " %9s %9s", ours[order[i], names[j]], native[order[i], names[j]]
            print ""
        }
    }'
