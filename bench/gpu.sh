#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# bench/gpu.sh [STAGE...] [--out DIR] [--packages DIR] [--commit NAME] [--time SECONDS]
#
# Everything that needs a GPU, in three stages of minutes, for machines that are to be had for
# minutes only; all of them in their order unless some are named:
#
#   build     builds the tests and benchmarks of the device, in build-gpu: what is there already is
#             used again
#   test      runs the tests, and again under compute-sanitizer
#   measure   runs the suites, the comparison with torch and the example
#
# Each writes DATE-GPU-STAGE.json, with what has run and the rows of all suites as bench/run.sh
# writes them, and DATE-GPU-STAGE.log to docs/results, or to DIR. Installs nothing and needs no
# network.
#
#   --out DIR        where the results go
#   --packages DIR   what bench/device/fetch_packages.sh has unpacked there, for a machine without
#                    CLI11, nlohmann-json, sentencepiece, PCRE2 and utf8proc, and with the headers of
#                    FlashInfer; what needs them is skipped where they are not
#   --commit NAME    of the sources, where they are no git checkout
#   --time SECONDS   all that a stage may take, 520 unless told otherwise: a part that has not begun
#                    by then is skipped
#
# A part that fails does not keep the others from running. Exits with 0 if none has failed, with 2
# if the machine lacks what all parts need.
set -uo pipefail

command_line="bench/gpu.sh $*"
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")
. "$here/device/machine.sh"

out=$root/docs/results
packages=
commit=
time_limit=520
stages=()
while [ $# -gt 0 ]; do
  case "$1" in
    build | test | measure) stages+=("$1"); shift; continue ;;
  esac
  if [ $# -lt 2 ]; then set -- --help ""; fi
  case "$1" in
    --out) out=$2 ;;
    --packages) packages=$2 ;;
    --commit) commit=$2 ;;
    --time) time_limit=$2 ;;
    *) sed -n '4,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
  esac
  shift 2
done
if [ ${#stages[@]} -eq 0 ]; then stages=(build test measure); fi

# --- what is here ------------------------------------------------------------------------------
missing=()
nvcc=$(find_nvcc) || missing+=("nvcc, on PATH or named by CUDACXX")
command -v cmake >/dev/null || missing+=("cmake")
command -v c++ >/dev/null || missing+=("c++, the compiler of host code")
command -v python3 >/dev/null || missing+=("python3")
if command -v make >/dev/null; then
  generator="Unix Makefiles" keep_going=(-k)
elif command -v ninja >/dev/null; then
  generator=Ninja keep_going=(-k 0)
else
  missing+=("make or ninja")
fi
gpu=$(gpu_property name) || missing+=("a GPU: nvidia-smi shows none")
if [ ${#missing[@]} -gt 0 ]; then
  echo "bench/gpu.sh: this machine lacks" >&2
  printf '  %s\n' "${missing[@]}" >&2
  exit 2
fi
architecture=$(gpu_architecture)
driver=$(gpu_property driver_version)
cuda=$("$nvcc" --version | sed -n 's/.*release \([0-9.]*\).*/\1/p')
today=$(date +%Y-%m-%d)
if [ -z "$commit" ]; then
  commit=$(git -C "$root" describe --always --dirty --abbrev=12 2>/dev/null) || commit=unknown
fi
slug=$(printf '%s' "$gpu" | tr '[:upper:]' '[:lower:]' | tr -cs 'a-z0-9' '-' | sed 's/^-*//; s/-*$//')
mkdir -p "$out" || exit 2
out=$(cd "$out" && pwd)
build=$root/build-gpu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CUDACXX=$nvcc PYTHONUNBUFFERED=1
if [ -n "$packages" ]; then
  packages=$(cd "$packages" && pwd) || exit 2
  libraries=$(dirname "$(find "$packages/usr/lib" -name libsentencepiece.so | head -n 1)")
  export CMAKE_PREFIX_PATH=$packages/usr${CMAKE_PREFIX_PATH:+:$CMAKE_PREFIX_PATH}
  export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  export PKG_CONFIG=$packages/usr/bin/pkgconf PKG_CONFIG_PATH=$libraries/pkgconfig
  export PKG_CONFIG_SYSROOT_DIR=$packages
fi

# --- parts -------------------------------------------------------------------------------------
parts=$work/parts.tsv # name, state, seconds, remark
began_stage=0
left() { echo $((time_limit - SECONDS + began_stage)); }

note() { # NAME STATE SECONDS REMARK
  printf '%s\t%s\t%s\t%s\n' "$@" >>"$parts"
  echo "== $1: $2${4:+ ($4)}"
}

skip() { # NAME REASON
  note "$1" skipped 0 "$2"
}

# part NAME LIMIT COMMAND...: runs the command, for LIMIT seconds at most. Exit code 77: not run.
part() {
  local name=$1 limit=$2 began=$SECONDS left status
  shift 2
  left=$(left)
  if [ "$left" -lt 5 ]; then
    skip "$name" "no time left"
    return
  fi
  if [ "$limit" -gt "$left" ]; then limit=$left; fi
  echo
  echo "== $name"
  timeout -k 5 "$limit" "$@"
  status=$?
  case $status in
    0) note "$name" ok $((SECONDS - began)) "" ;;
    77) note "$name" skipped $((SECONDS - began)) "see above" ;;
    124 | 137) note "$name" failed $((SECONDS - began)) "not done after $limit s" ;;
    *) note "$name" failed $((SECONDS - began)) "exit code $status" ;;
  esac
}

# part_of PROGRAM NAME LIMIT COMMAND...: a part that needs a program of the build.
part_of() {
  local program=$1
  shift
  if [ -f "$build/$program" ]; then
    part "$@"
  elif ! with_models && [[ $program == *engine* || $program == *models* || $program == examples/* ]]; then
    skip "$1" "needs CLI11, nlohmann-json, sentencepiece, PCRE2 and utf8proc"
  else
    skip "$1" "was not built"
  fi
}

# Whether the build has the example engine.
with_models() { grep -qx 'HUNCH_BUILD_EXAMPLES:BOOL=ON' "$build/CMakeCache.txt"; }

# run_test NAME PROGRAM [ARGUMENT]: a test, beside others: they look at bits, not at times. A test of
# the device says "NOT RUN" and succeeds where it sees no device; here that is a failure.
tests=()
run_test() {
  local name=$1 program=$build/test/device/$2 limit=120 left
  shift 2
  left=$(left)
  if [ "$limit" -gt "$left" ]; then limit=$left; fi
  if [ ! -x "$program" ]; then skip "$name" "was not built"; return; fi
  if [ "$left" -lt 5 ]; then skip "$name" "no time left"; return; fi
  tests+=("$name")
  (
    began=$SECONDS
    timeout -k 5 "$limit" "$program" "$@" >"$work/$name.txt" 2>&1
    status=$?
    if grep -q "NOT RUN" "$work/$name.txt"; then status=1; fi
    echo "$status $((SECONDS - began))" >"$work/$name.status"
  ) &
}
end_tests() {
  local name status took
  wait
  for name in "${tests[@]}"; do
    read -r status took <"$work/$name.status"
    echo
    echo "== $name"
    tail -n 40 "$work/$name.txt"
    case $status in
      0) note "$name" ok "$took" "" ;;
      124 | 137) note "$name" failed "$took" "not done in time" ;;
      *) note "$name" failed "$took" "exit code $status" ;;
    esac
  done
}

configure() { # EXAMPLES
  cmake -S "$root" -B "$build" -G "$generator" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_CUDA_ARCHITECTURES="$architecture" -DHUNCH_BUILD_CUDA=ON -DHUNCH_QUICK_BUILD=OFF \
    -DHUNCH_BUILD_TESTS=ON -DHUNCH_DEVICE_ONLY=ON -DHUNCH_BUILD_BENCH=ON \
    -DHUNCH_BUILD_EXAMPLES="$1" >"$work/configure.txt" 2>&1
}

# The four tools share the device: they look at accesses, not at times.
sanitize() {
  local tool tools=(memcheck racecheck initcheck synccheck) limit=300 began=$SECONDS status took
  local left why="" sanitizer program
  left=$(left)
  local programs=("$build"/test/device/device{,_head}_test)
  sanitizer=$(command -v compute-sanitizer) || sanitizer=$(dirname "$nvcc")/compute-sanitizer
  if [ "$limit" -gt "$left" ]; then limit=$left; fi
  if [ "$left" -lt 5 ]; then why="no time left"; fi
  for program in "${programs[@]}"; do
    if [ ! -x "$program" ]; then why="$(basename "$program") was not built"; fi
  done
  if [ ! -x "$sanitizer" ]; then why="compute-sanitizer is not here"; fi
  if [ -n "$why" ]; then
    for tool in "${tools[@]}"; do skip "sanitizer $tool" "$why"; done
    return
  fi
  for tool in "${tools[@]}"; do
    (
      status=0
      options=(--tool "$tool" --error-exitcode 99 --print-limit 20)
      case $tool in
        # It does not see that threads of some warps, which have met at a barrier of their own, then
        # meet all others: in this kernel it reports writes and reads on two sides of a barrier of
        # the block. And words that threads load to, and nobody reads, are warnings to it.
        racecheck) options+=(--racecheck-detect-level error
          --kernel-name-exclude kernel_substring=summarise_rows) ;;
        # It loses track of the barriers in memory by which blocks of a cluster tell each other.
        synccheck) options+=(--kernel-name-exclude kernel_substring=run_body_by_cluster) ;;
      esac
      for program in "${programs[@]}"; do
        HUNCH_TEST_SHORT=1 timeout -k 5 $((limit / ${#programs[@]})) "$sanitizer" \
          "${options[@]}" "$program" || status=$?
      done >"$work/$tool.txt" 2>&1
      echo "$status $((SECONDS - began))" >"$work/$tool.status"
    ) &
  done
  wait
  for tool in "${tools[@]}"; do
    read -r status took <"$work/$tool.status"
    echo
    echo "== sanitizer $tool"
    tail -n 60 "$work/$tool.txt"
    if grep -q "NOT RUN" "$work/$tool.txt"; then status=1; fi
    case $status in
      0) note "sanitizer $tool" ok "$took" "" ;;
      99) note "sanitizer $tool" failed "$took" "it has found something" ;;
      124 | 137) note "sanitizer $tool" failed "$took" "not done in time" ;;
      *) note "sanitizer $tool" failed "$took" "exit code $status" ;;
    esac
  done
}

stage_build() {
  if ! configure ON; then
    grep -A 4 "CMake Error" "$work/configure.txt" | head -n 8
    echo "Without the example engine, then: bench/device/fetch_packages.sh brings what it needs."
    if ! configure OFF; then
      cat "$work/configure.txt"
      note configure failed "$SECONDS" ""
      return
    fi
  fi
  note configure ok "$SECONDS" "$(with_models || echo "without the example engine")"
  part build "$time_limit" cmake --build "$build" -j "$(nproc)" --target hunch_device_programs \
    -- "${keep_going[@]}"
}

stage_test() {
  local part
  for part in steps residuals points routers stages; do
    run_test "device $part" device_test "$part"
  done
  run_test canvas device_canvas_test
  run_test head device_head_test
  for part in 1 3 17; do
    run_test "compositions, batch $part" device_compositions_test "$part"
  done
  run_test shards device_shards_test
  run_test engine device_engine_test
  end_tests
  sanitize
}

stage_measure() {
  part_of bench/device/hunch_bench_device "suite device" 120 \
    "$build/bench/device/hunch_bench_device" --json "$work/device.json"
  part_of bench/device/hunch_bench_device_models "suite device_models" 150 \
    "$build/bench/device/hunch_bench_device_models" --json "$work/models.json"
  local flashinfer=$build/bench/device/libhunch_bench_flashinfer.so
  if [ ! -f "$flashinfer" ]; then flashinfer=; fi
  part_of bench/device/libhunch_bench_chains.so "comparison with torch" 120 \
    python3 "$here/device/compare.py" "$build/bench/device/libhunch_bench_chains.so" \
    ${flashinfer:+--flashinfer "$flashinfer"} --json "$work/compare.json"
  part_of examples/generate "generate" 60 \
    "$build/examples/generate" --device cuda --batch 8 --color never
}

run_stage() { # STAGE
  : >"$parts"
  rm -f "$work"/{device,models,compare}.json
  began_stage=$SECONDS
  echo "date     $today"
  echo "GPU      $gpu"
  echo "driver   $driver"
  echo "CUDA     $cuda"
  echo "commit   $commit"
  echo "command  $command_line"
  echo "stage    $1"
  if [ "$1" != build ] && [ ! -f "$build/CMakeCache.txt" ]; then
    note "$1" failed 0 "nothing is built: bench/gpu.sh build"
  else
    "stage_$1"
  fi
  summarise "$1"
}

summarise() { # STAGE
  echo
  echo "== summary"
  column_format='%-28s %-8s %5s s  %s\n'
  while IFS=$'\t' read -r name state seconds remark; do
    # shellcheck disable=SC2059
    printf "$column_format" "$name" "$state" "$seconds" "$remark"
  done <"$parts"
  python3 "$here/device/collect.py" "$out/$today-$slug-$1.json" "$parts" "$work"/{device,models,compare}.json \
    -- "date=$today" "gpu=$gpu" "driver=$driver" "cuda=$cuda" "commit=$commit" \
    "command=$command_line" "stage=$1" || note collect failed 0 ""
}

failed=no
for stage in "${stages[@]}"; do
  run_stage "$stage" 2>&1 | tee "$out/$today-$slug-$stage.log"
  if cut -f 2 "$parts" | grep -qx failed; then failed=yes; fi
  echo "$out/$today-$slug-$stage.json"
  echo "$out/$today-$slug-$stage.log"
done
[ "$failed" = no ]
