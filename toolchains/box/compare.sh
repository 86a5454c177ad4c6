#!/usr/bin/env bash
# Runs the same commands with the tools of this machine (GNU coreutils, diffutils, findutils, gawk, grep, gzip, patch,
# sed, tar) and with those of box, and compares standard output, exit codes and the files left behind.
#
#   compare.sh BELLJAR [BOX [NAME...]]    BOX: the module; the one beside this script unless given
#                                         NAME: of a file of cases in compare/; all of them unless given
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
belljar=$(realpath "${1:?usage: compare.sh BELLJAR [BOX [NAME...]]}")
box=$(realpath "${2:-$here/box.wasm}")
shift $(($# < 2 ? $# : 2))
[ $# -gt 0 ] || set -- first archives awk configure diff grep lines patch paths sed trees
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/tools"
# The names of the tools, as the module lists them.
for tool in $("$belljar" run --quiet "$box" --help | tail -n 1); do
    ln -s "$box" "$scratch/tools/$tool.wasm"
done
export LC_ALL=C TZ=UTC
# shellcheck source-path=SCRIPTDIR source=compare/common.sh
. "$here/compare/common.sh"
for name in "$@"; do
    mkdir "$scratch/native" "$scratch/boxed"
    input=/dev/null before=$count failed_before=$failed
    # shellcheck source=/dev/null
    . "$here/compare/$name.sh"
    echo "compare.sh: $name: $((count - before)) commands, $((failed - failed_before)) differences"
    rm -rf "$scratch/native" "$scratch/boxed"
done

echo "compare.sh: $count commands, $failed differences"
[ $failed = 0 ]
