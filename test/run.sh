#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Set-up, build and all tests. With --long instead: what takes longer, for runs after one without,
# a second compiler, sanitizers, the race check, soak runs, programs for a device, fuzzing. With
# --all: both, then what is tried before a release, rows of 16 bits in every composition, all tests by
# the second compiler, fuzzing without assertions, the shipped models under sanitizers, NEON in an
# emulator, other architectures of devices, processes that share a vocabulary, the torch operators,
# engines in Python that call them, and llama.cpp.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")
. "$root/examples/packages.sh"

short=yes
long=no
all=no
case "${1:-}" in
  "") ;;
  --long) short=no long=yes ;;
  --all) long=yes all=yes ;;
  *) echo "usage: test/run.sh [--long | --all]" >&2; exit 2 ;;
esac

need_packages "${BUILD_PACKAGES[@]}" doctest-dev clang-format python3 $(thrust_package)
if [ -z "${CUDACXX:-}" ] && ! command -v nvcc >/dev/null && [ -x /usr/local/cuda/bin/nvcc ]; then
  export CUDACXX=/usr/local/cuda/bin/nvcc
fi
cd "$root"
jobs=$(nproc)

stage() { echo "== $* (after $SECONDS s)"; }
build() { cmake --build --preset "$1" -j "$jobs" "${@:2}" -- --no-print-directory; }
run_tests() { ctest --preset "$1" -j "$jobs" "${@:2}"; }

if [ "$short" = yes ]; then
  stage format
  git ls-files -z '*.hpp' '*.cpp' '*.cuh' '*.cu' | xargs -0 -r clang-format --dry-run --Werror
  stage g++, warnings as errors
  cmake --preset strict >/dev/null
  build strict
  run_tests strict -LE '^(full|all)$'
  if [ ! -e /dev/nvidiactl ] && [ ! -e /dev/dxg ]; then
    echo "######## NO CUDA DEVICE: the programs of test/device that run on one were NOT RUN ########"
  fi
fi

if [ "$long" = yes ]; then
  need_packages clang libclang-rt-14-dev
  stage clang, warnings as errors
  cmake --preset strict >/dev/null
  python3 test/second_compiler.py build-strict clang++
  stage AddressSanitizer, UndefinedBehaviorSanitizer
  cmake --preset sanitize >/dev/null
  build sanitize --target test_sanitized
  run_tests sanitize -LE '^(full|all)$' -R '^(core|decoder|engine|engine\.rest|faults|input|state)$'
  stage long runs
  build strict --target all test_full
  run_tests strict -L '^full$'
  stage fuzzing
  cmake --preset fuzz >/dev/null
  build fuzz
  run_tests fuzz -LE '^all$'
fi

if [ "$all" = yes ]; then
  neon=no
  if [ "$(uname -m)" = x86_64 ]; then
    neon=yes
    need_packages g++-aarch64-linux-gnu qemu-user
  fi
  need_packages "${RANKS_PACKAGES[@]}"
  stage other architectures, rows of 16 bits, processes that share a vocabulary
  cmake --preset strict -DHUNCH_DEMAND_NEON="$neon" >/dev/null
  build strict --target test_all
  run_tests strict -L '^all$'
  stage ranks with a device each
  test/device/shards.sh || [ $? -eq 77 ]
  stage fuzzing without assertions
  build fuzz --target fuzz_all
  run_tests fuzz -L '^all$'
  stage AddressSanitizer, UndefinedBehaviorSanitizer, shipped models
  run_tests sanitize -R '^engine\.shipped$'
  stage clang, all tests
  cmake --preset clang >/dev/null
  build clang
  # Teams of threads were run above; they do not depend on the compiler.
  run_tests clang -LE '^(full|all)$' -E '^(package|team)'
  stage torch operators
  ./examples/torch_op/build.sh
  stage engines that call the torch operators
  for engine in vllm sglang; do
    PYTHONPATH=build-torch/python "${PYTHON:-.cache/torch_op/bin/python}" -B "build-torch/test/test_$engine.py"
  done
  stage llama.cpp
  ./examples/llama_cpp/run.sh --test
  stage what the recipes read
  "${PYTHON:-.cache/torch_op/bin/python}" -B test/recipes/convert_test.py examples/recipes
  "${PYTHON:-.cache/torch_op/bin/python}" -B test/recipes/export_test.py examples/recipes
fi
stage done
