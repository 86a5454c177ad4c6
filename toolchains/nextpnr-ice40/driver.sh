# nextpnr-ice40 looks for its files in /share, which a program cannot tell from the folder share of its directory.
root=${0%/bin/*}
if [ -e share ]; then
    echo "nextpnr-ice40: the folder share of this directory hides the files of nextpnr-ice40: run it in another directory" >&2
    exit 1
fi
ln -s "$root/share" share || exit
trap 'rm -f share' EXIT
"$root/nextpnr-ice40-module" "$@"
