#!/bin/sh
# Builds examples/cpp/build/step.
# Headers and library: those that pkg-config knows (Debian 13: apt-get install libonnxruntime-dev). Elsewhere the headers in
# ONNXRUNTIME_INCLUDE, and the library that lies in the Python package onnxruntime, of the same or a later version.
set -eu
cd "$(dirname "$0")"
mkdir -p build
if [ -z "${ONNXRUNTIME_INCLUDE:-}" ] && pkg-config --exists libonnxruntime 2>/dev/null; then
  flags="$(pkg-config --cflags --libs libonnxruntime)"
else
  : "${ONNXRUNTIME_INCLUDE:?names no folder with onnxruntime_cxx_api.h}"
  folder="$("${PYTHON:-python3}" -c 'import onnxruntime, os; print(os.path.dirname(onnxruntime.__file__))')"
  for library in "$folder"/capi/libonnxruntime.so.*; do
    ln -sf "$library" build/libonnxruntime.so
    ln -sf "$library" build/libonnxruntime.so.1 # the name that the program looks for
  done
  flags="-I$ONNXRUNTIME_INCLUDE -Lbuild -lonnxruntime -Wl,-rpath,\$ORIGIN"
fi
# shellcheck disable=SC2086 # several flags
"${CXX:-g++}" -std=c++17 -O2 -Wall -Wextra step.cpp -o build/step $flags
