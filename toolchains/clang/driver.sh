# cc and c++: the driver of clang cannot start programs, so it is asked for its plan (-###), and each step runs here.
set -u

root=${0%/bin/*}
case ${0##*/} in
    *++) driver=clang++-driver ;;
    *) driver=clang-driver ;;
esac

# A step of a plan.
if [ "${1-}" = -cc1 ] || [ "${1-}" = -cc1as ]; then
    exec "$root/clang-driver" "$@"
fi

# Prints LINE, a command with words in double quotes, so that eval takes a backtick in it for itself.
without_backticks() { # LINE
    rest=$1 line=
    while case $rest in *\`*) ;; *) false ;; esac; do
        line="$line${rest%%\`*}\\\`"
        rest=${rest#*\`}
    done
    printf %s "$line$rest"
}

plan=$("$root/$driver" "-###" -resource-dir "$root/usr" --sysroot="$root/usr" "$@" 2>&1 >/tmp/cc-$$.out) || status=$?
cat "/tmp/cc-$$.out"
steps=
while IFS= read -r line; do
    case $line in
        ' "'*) steps="$steps$line
" ;;
        'clang version '* | 'Target: '* | 'Thread model: '* | 'InstalledDir: '* | 'Build config: '* | ' (in-process)') ;;
        ?*) printf '%s\n' "$line" >&2 ;;
    esac
done <<EOF
$plan
EOF
[ -z "${status-}" ] || exit "$status"

# Makes the output of the linker, whose arguments these are, executable, as linkers do.
make_executable() {
    while [ $# -gt 1 ]; do
        if [ "$1" = -o ]; then
            [ ! -f "$2" ] || chmod +x "$2"
            return
        fi
        shift
    done
}

# Not as a pipeline, whose last part would be a subshell.
while IFS= read -r line; do
    [ -n "$line" ] || continue
    eval "set -- $(without_backticks "$line")"
    [ -n "$1" ] || shift
    program=$1
    shift
    case $program in
        clang | clang++ | */clang | */clang++) program=clang-driver ;;
        *) program=${program##*/} ;;
    esac
    "$root/$program" "$@" </dev/null || exit
    [ "$program" != wasm-ld ] || make_executable "$@"
done <<EOF
$steps
EOF
