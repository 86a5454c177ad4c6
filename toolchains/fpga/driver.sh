# Runs the module of the program by whose name it is called. Yosys and nextpnr look for their files in /share, which a program
# cannot tell from the folder share of its directory.
root=${0%/bin/*} name=${0##*/}
if [ -e share ]; then
    echo "$name: the folder share of this directory hides the files of $name: run it in another directory" >&2
    exit 1
fi
ln -s "$root/share" share || exit
trap 'rm -f share' EXIT
"$root/$name-module" "$@"
