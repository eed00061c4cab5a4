#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# bench/run.sh SUITE [--json FILE]
#
# Builds the suite in build-bench (Release), runs it, prints its table, and writes
# {"rows": [{"name", "value", "unit", "goal", "met"}]} to FILE if one is named; "goal" and "met"
# are null for rows without a goal. Exits 0 whenever the suite ran, met or not.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
build="$root/build-bench"

suites() {
  for file in "$here"/*.cpp; do basename "$file" .cpp; done
}

suite=${1:-}
if [ -z "$suite" ] || ! suites | grep -qx -e "$suite"; then
  echo "usage: bench/run.sh SUITE [--json FILE]" >&2
  echo "suites:" $(suites) >&2
  exit 2
fi
shift

log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DHUNCH_BUILD_BENCH=ON \
         -DHUNCH_BUILD_TESTS=OFF &&
       cmake --build "$build" --target "hunch_bench_$suite"; } >"$log" 2>&1; then
  cat "$log" >&2
  exit 1
fi
"$build/bench/hunch_bench_$suite" "$@"
