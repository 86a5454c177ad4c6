#!/usr/bin/env bash
# Installs belljar INPUT_VERSION from INPUT_RELEASES, and tells the steps that follow where it and its files are.
set -euo pipefail

version=${INPUT_VERSION:-$(sed -n 's/^version = "\(.*\)"$/\1/p' "$GITHUB_ACTION_PATH/Cargo.toml" | head -1)}
version=${version#v}
if [[ ! $version =~ ^[0-9]+\.[0-9]+\.[0-9]+[0-9A-Za-z.-]*$ ]]; then
    echo "::error::version is '$version'; give one such as 0.1.0"
    exit 2
fi
case $RUNNER_OS-$RUNNER_ARCH in
Linux-X64) platform=x86_64-linux ;;
Linux-ARM64) platform=aarch64-linux ;;
macOS-X64) platform=x86_64-macos ;;
macOS-ARM64) platform=aarch64-macos ;;
Windows-X64) platform=x86_64-windows ;;
Windows-ARM64) platform=aarch64-windows ;;
*) echo "::error::belljar has no release for $RUNNER_OS on $RUNNER_ARCH; build it with cargo install" && exit 2 ;;
esac

name=belljar-$version-$platform
folder=$RUNNER_TEMP/belljar
mkdir -p "$folder"
cd "$folder"
fetch() {
    if ! curl --fail --silent --show-error --location --retry 3 --output "$1" "$INPUT_RELEASES/v$version/$1"; then
        echo "::error::cannot fetch $1 of belljar $version; see $INPUT_RELEASES for the versions that exist"
        exit 1
    fi
}
fetch "$name.tar.gz"
fetch SHA256SUMS
sum() { if command -v sha256sum >/dev/null; then sha256sum "$1"; else shasum -a 256 "$1"; fi }
if ! grep -qxF "$(sum "$name.tar.gz" | tr -d '\*' | awk '{ print $1 "  " $2 }')" SHA256SUMS; then
    echo "::error::$name.tar.gz has another SHA-256 than SHA256SUMS says: it was damaged or changed"
    exit 1
fi
tar -xzf "$name.tar.gz"

home=$RUNNER_TEMP/belljar/home
cache=$RUNNER_TEMP/belljar/cache
echo "$folder/$name" >>"$GITHUB_PATH"
printf 'BELLJAR_HOME=%s\nBELLJAR_CACHE_DIR=%s\n' "$home" "$cache" >>"$GITHUB_ENV"
printf 'version=%s\nhome=%s\ncache=%s\n' "$version" "$home" "$cache" >>"$GITHUB_OUTPUT"
"$folder/$name/belljar" --version
