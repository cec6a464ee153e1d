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
# From where this machine gets its own Debian packages; the security archive has none of these.
mirror="$(apt-get indextargets --format '$(REPO_URI)' 'Component: main' | grep -v security | head -n 1)"
[ -n "$mirror" ] || { echo "apt has no Debian archive with its lists; run apt-get update first" >&2; exit 1; }
echo "deb [signed-by=$key] $mirror trixie main" >"$work/trixie.list"
apt() {
  apt-get -qq -o Dir::Etc::SourceList="$work/trixie.list" -o Dir::Etc::SourceParts=/nowhere \
    -o Dir::State::Lists="$work/lists" -o Dir::Cache="$work/cache" -o APT::Sandbox::User="$(id -un)" "$@" >&2
}
apt update
(cd "$work" && apt download libonnxruntime-dev)
dpkg-deb --extract "$work"/libonnxruntime-dev_*.deb "$folder"
echo "$folder/usr/include/onnxruntime"
