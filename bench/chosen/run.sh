#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What drafters and verifiers that are chosen at run time cost to compile, and in a step: see
# docs/policies/compositions.md. The seconds are of one thread, the least of three.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
compiler=${CXX:-g++}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
flags=(-std=c++20 -O2 -I "$root/include" -I "$root/examples" -I "$root/bench")

names=("one pair" "each pair that fits" "one decoder of any")
for form in 0 1 2; do
  least=
  for _ in 1 2 3; do
    took=$({ TIMEFORMAT=%U; time "$compiler" "${flags[@]}" -DFORM=$form -c "$here/pairs.cpp" -o "$work/$form.o"; } 2>&1)
    if [ -z "$least" ] || awk "BEGIN { exit !($took < $least) }"; then least=$took; fi
  done
  code=$(size "$work/$form.o" | awk 'NR == 2 { printf "%.0f", $1 / 1000 }')
  printf '%-22s %6s s to compile, %s KB\n' "${names[$form]}" "$least" "$code"
done
"$compiler" "${flags[@]}" -DFORM=3 "$here/pairs.cpp" -o "$work/steps" -pthread
"$work/steps"
