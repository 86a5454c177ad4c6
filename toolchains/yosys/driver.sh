# yosys looks for its files in /share, which a program cannot tell from the folder share of its directory.
root=${0%/bin/*}
if [ -e share ]; then
    echo "yosys: the folder share of this directory hides the files of yosys: run it in another directory" >&2
    exit 1
fi
ln -s "$root/share" share || exit
trap 'rm -f share' EXIT
"$root/yosys-module" "$@"
