#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# bench/run.sh SUITE [--json FILE]
#
# Builds the suite in build-bench (Release; those of a CUDA device in build-gpu), runs it, prints
# its table, and writes {"rows": [{"name", "value", "unit", "goal", "met"}]} to FILE if one is
# named, `evaluate` more lists beside it; "goal" and "met" are null for rows without a goal, "value"
# too for what was "not_run".
# Exits 0 whenever the suite ran, met or not.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")
. "$here/device/machine.sh"
. "$root/examples/packages.sh"

suites() {
  for file in "$here"/*.cpp; do basename "$file" .cpp; done
  echo device
  echo device_models
}

suite=${1:-}
if [ -z "$suite" ] || ! suites | grep -x -e "$suite" >/dev/null; then
  echo "usage: bench/run.sh SUITE [--json FILE]" >&2
  echo "suites:" $(suites) >&2
  exit 2
fi
shift

build="$root/build-bench"
program="bench/hunch_bench_$suite"
options=
case "$suite" in
  device*) # on a machine that may have no network
    if ! nvcc=$(find_nvcc); then
      echo "bench/run.sh $suite: this suite needs nvcc, which is not here; if a toolkit is" \
        "installed, set CUDACXX to the path of its nvcc" >&2
      exit 1
    fi
    if ! architecture=$(gpu_architecture) || [ -z "$architecture" ]; then
      echo "bench/run.sh $suite: this suite needs a CUDA device, and nvidia-smi shows none" >&2
      exit 1
    fi
    export CUDACXX="$nvcc"
    build="$root/build-gpu"
    program="bench/device/hunch_bench_$suite"
    options="-DCMAKE_CUDA_ARCHITECTURES=$architecture"
    # The bodies alone need no engine, and so none of its packages.
    if [ "$suite" = device ]; then options="$options -DHUNCH_BUILD_EXAMPLES=OFF"; fi
    if [ "$suite" = device_models ]; then options="$options -DHUNCH_BUILD_EXAMPLES=ON"; fi
    ;;
  *)
    need_packages "${BUILD_PACKAGES[@]}" $(thrust_package) >&2
    # Where it cannot be installed, the row that needs it says so.
    if [ "$suite" = shards ]; then need_packages "${RANKS_PACKAGES[@]}" >&2; fi
    if [ "$suite" = vocab ]; then need_packages "${BENCH_PACKAGES[@]}" >&2 || true; fi
    ;;
esac

log=$(mktemp)
trap 'rm -f "$log"' EXIT
# $options is a list of words without blanks.
if ! { cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DHUNCH_BUILD_BENCH=ON \
         -DHUNCH_BUILD_TESTS=OFF $options &&
       cmake --build "$build" --target "hunch_bench_$suite" -j "$(nproc)"; } >"$log" 2>&1; then
  cat "$log" >&2
  exit 1
fi
if [ "$suite" = shards ]; then # two processes, each on a processor of its own
  start=(mpirun -n 2 --bind-to core)
  if [ "$(id -u)" -eq 0 ]; then start+=(--allow-run-as-root); fi
  "${start[@]}" "$build/$program" "$@"
  exit
fi
"$build/$program" "$@"
