# shellcheck shell=bash
# What the cases are written with; compare.sh has read its arguments.

count=0 failed=0 input=/dev/null

reads() { # TEXT: what the next commands read, as printf has it
    # shellcheck disable=SC2059 # it is a format on purpose
    printf "$1" > "$scratch/input"
    input=$scratch/input
}

both() { # COMMAND...: in both folders, and nothing is compared
    (cd "$scratch/native" && "$@") && (cd "$scratch/boxed" && "$@")
}

same() { # TOOL ARGUMENT...
    local native boxed number
    (cd "$scratch/native" && env "$@" < <(cat "$input") > "$scratch/1" 2> "$scratch/1e")
    native=$?
    (cd "$scratch/boxed" && "$belljar" run --quiet --apply --mtimes host --toolchain "$scratch/tools" "$@" \
        < <(cat "$input") > "$scratch/2" 2> "$scratch/2e")
    boxed=$?
    if [ "$1" = find ]; then # whose order is that of the directory there, and sorted here
        for number in 1 2; do
            tr ' \0' '\n\n' < "$scratch/$number" | sort > "$scratch/sorted"
            mv "$scratch/sorted" "$scratch/$number"
        done
    fi
    count=$((count + 1))
    if [ $native = $boxed ] && cmp -s "$scratch/1" "$scratch/2" && same_message; then return; fi
    failed=$((failed + 1))
    echo "differs: $*"
    echo "  exit codes $native and $boxed"
    diff -a "$scratch/1" "$scratch/2" | head -8 | sed 's/^/  /'
    head -3 "$scratch/1e" "$scratch/2e" | sed 's/^/  /'
}

same_message() { # there is one, or there is none
    if [ -s "$scratch/1e" ]; then [ -s "$scratch/2e" ]; else ! [ -s "$scratch/2e" ]; fi
}

tree() { # of both folders
    (cd "$scratch/$1" && find . -printf '%P %y %l\n' | sort && find . -type f | sort | xargs -d '\n' sha256sum)
}

trees() { # the files are the same now
    if ! diff <(tree native) <(tree boxed); then
        failed=$((failed + 1))
        echo "the files differ after: $1"
    fi
}
