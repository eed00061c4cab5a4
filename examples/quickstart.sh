#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the example engine and writes a text with the shipped models, by plain and by speculative
# decoding. Arguments are passed on to build/examples/generate; --help lists them.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")
. "$here/packages.sh"

need_packages "${BUILD_PACKAGES[@]}" $(thrust_package)
# Device code takes minutes to compile: only where there is a device.
if nvidia-smi >/dev/null 2>&1; then cuda=ON; else cuda=OFF; fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { cmake -S "$root" -B "$root/build" -DCMAKE_BUILD_TYPE=Release \
             -DHUNCH_BUILD_CUDA=$cuda -DHUNCH_BUILD_TESTS=OFF -DHUNCH_BUILD_BENCH=OFF &&
       cmake --build "$root/build" --target generate -j "$(nproc)"; } >"$log" 2>&1; then
  cat "$log" >&2
  echo "quickstart: the build failed" >&2
  exit 1
fi
"$root/build/examples/generate" "$@"
