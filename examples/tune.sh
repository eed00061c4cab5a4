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
. "$here/build.sh"

need_packages python3
tune=(python3 -B "$here/tune/tune.py" --programs "$root/build/examples")
for word in "$@"; do
  case $word in -h | --help) exec "${tune[@]}" --help ;; esac
done
"${tune[@]}" --check "$@"
need_packages "${BUILD_PACKAGES[@]}" $(thrust_package)
echo "building build/, which takes minutes the first time"
build_examples tune "$root" generate make_ranking make_layout train_router
"${tune[@]}" "$@"
