#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Set-up, build and all tests. With --full, then: a second compiler with warnings as errors,
# sanitizers, fuzzing, soak runs, NEON in an emulator and the torch operators. With --long only
# these, behind a run without.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")
. "$root/examples/packages.sh"

short=yes
long=no
case "${1:-}" in
  "") ;;
  --full) long=yes ;;
  --long) short=no long=yes ;;
  *) echo "usage: test/run.sh [--full | --long]" >&2; exit 2 ;;
esac

need_packages "${BUILD_PACKAGES[@]}" doctest-dev clang-format python3 $(thrust_package)
if [ -z "${CUDACXX:-}" ] && ! command -v nvcc >/dev/null && [ -x /usr/local/cuda/bin/nvcc ]; then
  export CUDACXX=/usr/local/cuda/bin/nvcc
fi
cd "$root"
jobs=$(nproc)

if [ "$short" = yes ]; then
  echo "== format"
  git ls-files -z '*.hpp' '*.cpp' '*.cuh' '*.cu' | xargs -0 -r clang-format --dry-run --Werror
fi

build_and_test() { # preset, ctest arguments...
  local preset=$1
  shift
  cmake --preset "$preset" >/dev/null
  cmake --build --preset "$preset" -j "$jobs" -- --no-print-directory
  ctest --preset "$preset" -j "$jobs" "$@"
}

if [ "$short" = yes ]; then
  echo "== g++, warnings as errors"
  build_and_test strict -LE full
  if [ ! -e /dev/nvidiactl ] && [ ! -e /dev/dxg ]; then
    echo "######## NO CUDA DEVICE: the 3 programs of test/device that run on one were NOT RUN ########"
  fi
fi
if [ "$long" = no ]; then exit 0; fi

neon=no
if [ "$(uname -m)" = x86_64 ]; then neon=yes; fi
need_packages clang libclang-rt-14-dev
if [ "$neon" = yes ]; then need_packages g++-aarch64-linux-gnu qemu-user; fi
echo "== clang, warnings as errors"
# Teams of threads and their race check were run above; they do not depend on the compiler.
build_and_test clang -LE full -E '^(package|race|team)'
echo "== AddressSanitizer, UndefinedBehaviorSanitizer"
# The programs that own memory: the engine and its loaders, the decoder's loop under faults, random
# operations and bad input. Compiling the templates of the other tests with sanitizers takes longer
# than all of this.
sanitized=(engine faults input state units)
cmake --preset sanitize >/dev/null
cmake --build --preset sanitize -j "$jobs" --target hunch_test_engine \
  test_faults test_input test_state test_units -- --no-print-directory
ctest --preset sanitize -j "$jobs" -LE full -R "^($(IFS='|'; echo "${sanitized[*]}"))$"
echo "== long runs"
cmake --preset strict -DHUNCH_DEMAND_NEON="$neon" >/dev/null
cmake --build --preset strict -j "$jobs" --target all test_full -- --no-print-directory
ctest --preset strict -j "$jobs" -L full
echo "== torch operators"
./examples/torch_op/build.sh
if [ -d test/fuzz ]; then
  echo "== fuzzing"
  cmake --preset fuzz >/dev/null
  cmake --build --preset fuzz -j "$jobs" -- --no-print-directory
  ctest --preset fuzz -j "$jobs"
fi
