#!/usr/bin/env bash
# Installs the toolchains of INPUT_TOOLCHAINS, one a line, and those that the belljar.toml of this directory names.
set -euo pipefail

while IFS= read -r toolchain; do
    if [ -n "${toolchain// /}" ]; then
        belljar install --quiet "$toolchain" </dev/null
    fi
done <<<"${INPUT_TOOLCHAINS-}"
if [ -f belljar.toml ] && grep -q '^ *\[toolchains\]' belljar.toml; then
    belljar install --quiet --locked
fi
