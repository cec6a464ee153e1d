#!/bin/sh
# For Debian before 13, which has no libonnxruntime-dev: unpacks Debian 13's C++ headers of onnxruntime into FOLDER and prints
# what to set ONNXRUNTIME_INCLUDE to. Nothing is installed; the library comes from elsewhere (build.sh).
#   export ONNXRUNTIME_INCLUDE="$(sh headers.sh FOLDER)"
set -eu
mkdir -p "$1"
folder="$(cd "$1" && pwd)"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
key=/usr/share/keyrings/debian-archive-keyring.gpg
echo "deb [signed-by=$key] http://deb.debian.org/debian trixie main" >"$work/trixie.list"
apt() {
  apt-get -qq -o Dir::Etc::SourceList="$work/trixie.list" -o Dir::Etc::SourceParts=/nowhere \
    -o Dir::State::Lists="$work/lists" -o Dir::Cache="$work/cache" -o APT::Sandbox::User="$(id -un)" "$@" >&2
}
apt update
(cd "$work" && apt download libonnxruntime-dev)
dpkg-deb --extract "$work"/libonnxruntime-dev_*.deb "$folder"
echo "$folder/usr/include/onnxruntime"
