#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes what a pair of models needs for speculative decoding, measures which exact composition is the fastest on this
# machine, and writes it down:
#
#   ./tune.sh --model DIR [--draft DIR] --text FILE|FOLDER --out DIR [--threads N] [--quick]
#   ../build/examples/generate --preset OUT/preset.json --prompt "..."
#
# What is finished is kept: after an interruption the same command goes on. OUT/report.md says what was measured.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")
. "$here/packages.sh"

need_packages "${BUILD_PACKAGES[@]}" python3 $(thrust_package)
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { cmake -S "$root" -B "$root/build" -DCMAKE_BUILD_TYPE=Release -DHUNCH_BUILD_CUDA=OFF \
             -DHUNCH_BUILD_TESTS=OFF -DHUNCH_BUILD_BENCH=OFF &&
       cmake --build "$root/build" --target generate make_ranking make_layout train_router \
             -j "$(nproc)"; } >"$log" 2>&1; then
  cat "$log" >&2
  echo "tune: the build failed" >&2
  exit 1
fi
python3 -B "$here/tune/tune.py" --programs "$root/build/examples" "$@"
