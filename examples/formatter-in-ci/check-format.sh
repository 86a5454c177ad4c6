#!/bin/sh
# Fails if a JSON file is not formatted, and prints what formatting would change. `--fix` formats.
set -eu
cd "$(dirname "$0")"
how='--check --diff'
if [ "${1-}" = --fix ]; then
    how=--apply
fi
# The formatter sees this directory and nothing else, and cannot write to it with --check.
exec belljar run --quiet $how jsonfmt -i 2 config/*.json
