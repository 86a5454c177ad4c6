#!/usr/bin/env bash
# Checks the Python package: formats and types, then the wheel in a clean virtual environment, whose PATH has no compiler.
#
#   python/check.sh             a wheel of the profile of `cargo test`; without the examples that fetch packages
#   python/check.sh --release   an optimised wheel; with them, and with the benchmark
#   python/check.sh WHEEL       this wheel; likewise
#
# Needs what python/build.sh needs, and cc and git for the tests of the plugin.
set -euo pipefail
cd "$(dirname "$0")"

case ${1-} in
'') wheel=$(./build.sh --dev) ;;
--release) wheel=$(./build.sh) ;;
-*) echo "no option $1: see the head of this file" >&2 && exit 2 ;;
*) wheel=$(cd "$OLDPWD" && realpath "$1") ;;
esac

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
step() { printf '\n== %s (%d s)\n' "$*" "$SECONDS"; }

step 'clean virtual environment'
python3 -m venv "$scratch/venv"
bin=$scratch/venv/bin
"$bin/pip" install --quiet --disable-pip-version-check "$wheel[pytest]"

# Away from this folder, so that the installed package is imported, not the one here.
here=$PWD
cd "$scratch"

step 'tests of the wheel'
"$bin/pytest" -q -p no:cacheprovider "$here/tests"

step types
"$bin/pip" install --quiet --disable-pip-version-check mypy==2.4.1 pyright==1.1.414
"$bin/mypy" --strict --python-version 3.10 --package belljar
"$bin/mypy" --strict "$here/tests"
"$bin/stubtest" belljar._native
"$bin/pyright" --project "$here" --pythonpath "$bin/python"

if [ $# -gt 0 ]; then
    step 'the first example of docs/python.md, with no compiler on the path'
    python3 -c '
import re, sys
print(re.search(r"^```python\n(.*?)^```$", open(sys.argv[1]).read(), re.M | re.S)[1])
' "$here/../docs/python.md" >first.py
    BELLJAR_HOME=$scratch/home BELLJAR_CACHE_DIR=$scratch/cache PATH=/nonexistent "$bin/python" first.py

    step benchmark
    # Isolated, so that the installed package is imported.
    "$bin/python" -I "$here/bench.py"
fi
step 'all right'
