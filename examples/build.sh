# SPDX-License-Identifier: Apache-2.0
# Sourced by the scripts that run the examples, so that they share one build.

# build_examples SCRIPT ROOT TARGET...
build_examples() {
  local script=$1 root=$2 cuda=OFF log
  shift 2
  # Device code takes minutes to compile: only where there is a device.
  if nvidia-smi >/dev/null 2>&1; then cuda=ON; fi
  log=$(mktemp)
  if ! { cmake -S "$root" -B "$root/build" -DCMAKE_BUILD_TYPE=Release -DHUNCH_BUILD_CUDA=$cuda \
               -DHUNCH_BUILD_TESTS=OFF -DHUNCH_BUILD_BENCH=OFF &&
         cmake --build "$root/build" --target "$@" -j "$(nproc)"; } >"$log" 2>&1; then
    cat "$log" >&2
    rm -f "$log"
    echo "$script: the build failed" >&2
    return 1
  fi
  rm -f "$log"
}
