#!/usr/bin/env bash
# Builds wheels of the Python package, and prints their paths. Each has the extension module, which all versions of
# Python from 3.10 on can load, and the command `belljar`.
#
#   python/build.sh                     for this machine, optimised
#   python/build.sh --dev               for this machine, with the profile of `cargo test`, whose libraries it shares
#   python/build.sh [--dev] TARGET...   for other platforms, with zig as C compiler and linker:
#       x86_64-unknown-linux-gnu, aarch64-unknown-linux-gnu     for glibc 2.28 or newer
#       x86_64-pc-windows-gnu
#       x86_64-apple-darwin, aarch64-apple-darwin
#
# `.ci/elsewhere wheels` tests the wheels for other platforms, as far as that is possible on Linux.
#
# Needs Rust and python3 with pip, and for other platforms rustup; maturin and zig are fetched with pip.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_INCREMENTAL=0

tools=$PWD/target/python-tools
wheels=${BELLJAR_WHEELS:-$PWD/target/wheels}
scripts=python/belljar.data/scripts

fetch() {
    [ -e "$tools/.$1" ] && return
    [ -x "$tools/bin/pip" ] || python3 -m venv --clear "$tools"
    "$tools/bin/pip" install --quiet --disable-pip-version-check "$1"
    touch "$tools/.$1"
}
fetch maturin==1.16.0
export PATH=$tools/bin:$PATH

# The command into the folder whose files the wheel installs on the path, then the wheel.
#   wheel BINARY PROFILE MATURIN-OPTIONS...
wheel() {
    local binary=$1 profile=$2
    shift 2
    rm -rf "$scripts"
    mkdir -p "$scripts"
    cp "$binary" "$scripts/"
    cp LICENSE-APACHE LICENSE-MIT python/
    maturin build --quiet --manifest-path python/Cargo.toml --profile "$profile" --out "$wheels" "$@" >&2
    # Otherwise another build would have it, too.
    rm -rf "$scripts" python/LICENSE-APACHE python/LICENSE-MIT
}

# A C compiler and linker for the target $1, which zig calls $2, with the option $3: the same for the command and for the wheel,
# so that their libraries are built once.
zig_for() {
    cat >"$tools/$1-cc" <<EOF
#!/bin/bash
arguments=()
for argument; do
    case \$argument in
    # What a DLL exports is left out under this name, and then it exports everything, which is more than a DLL can.
    -Wl,*/list.def)
        cp "\${argument#-Wl,}" "\${argument:4:-8}exports.def"
        arguments+=("\${argument:4:-8}exports.def")
        ;;
    *) arguments+=("\$argument") ;;
    esac
done
exec cargo-zigbuild zig cc -- -target $2 $3 "\${arguments[@]}"
EOF
    printf '#!/bin/sh\nexec cargo-zigbuild zig ar -- "$@"\n' >"$tools/zig-ar"
    chmod +x "$tools/$1-cc" "$tools/zig-ar"
    export "CC_${1//-/_}=$tools/$1-cc" "AR_${1//-/_}=$tools/zig-ar"
    export "CARGO_TARGET_$(tr a-z- A-Z_ <<<"$1")_LINKER=$tools/$1-cc"
}

profile=release folder=release
if [ "${1-}" = --dev ]; then
    profile=dev folder=debug
    shift
fi
if [ $# -gt 0 ]; then
    fetch ziglang==0.17.1
    fetch cargo-zigbuild==0.24.1
    for target in "$@"; do
        platform=() name=belljar option=
        case $target in
        *-linux-gnu) zig=${target/-unknown/}.2.28 platform=(--compatibility manylinux_2_28) ;;
        *-windows-gnu) zig=${target/-pc/} name=belljar.exe ;;
        # There is no SDK of Apple's here.
        *-apple-darwin) zig=${target/-apple-darwin/-macos} option=-F$PWD/python/frameworks ;;
        *) echo "no target $target: see the head of this file" >&2 && exit 2 ;;
        esac
        rustup target add "$target" >&2
        zig_for "$target" "$zig" "$option"
        cargo build --quiet --profile "$profile" --bin belljar --target "$target" >&2
        wheel "${CARGO_TARGET_DIR:-target}/$target/$folder/$name" "$profile" --target "$target" \
            ${platform[@]+"${platform[@]}"}
    done
elif [ "$profile" = dev ]; then
    # With the examples come the features that tests enable in libraries.
    cargo build --quiet --bin belljar --examples >&2
    wheel "${CARGO_TARGET_DIR:-target}/debug/belljar" dev --features shared
else
    wheel "$(.ci/build-release)" release
fi
ls -t "$wheels"/belljar-*.whl | head -"$(($# > 1 ? $# : 1))"
