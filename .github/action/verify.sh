#!/usr/bin/env bash
# Runs `belljar verify` for each line of INPUT_VERIFY. All are run, also after one that failed.
set -euo pipefail

failed=0
while IFS= read -r command; do
    if [ -n "${command// /}" ]; then
        # Words, with the quotes of the shell. The line is that of whoever wrote the workflow, as other steps are.
        eval "words=($command)"
        printf 'belljar verify %s\n' "$command"
        # The lines are not the standard input of the program.
        if ! belljar verify "${words[@]}" </dev/null; then
            echo "::error::the runs of '$command' differ, or it failed"
            failed=1
        fi
    fi
done <<<"$INPUT_VERIFY"
exit $failed
