#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds llama.cpp and a program that decodes over it, and writes a text with the shipped models:
#
#   run.sh                                     by a chain of four and a head of 3,200 rows
#   run.sh --model X.gguf --draft Y.gguf ...   with models of yours; --help lists the flags
#   run.sh --test [FLAG...]                    the tests; the flags are doctest's
#   run.sh --table [FLAG...]                   measures, and writes a table; see table.py
#
# llama.cpp comes with the source distribution of the package llama-cpp-python, from pip's index.
# What was made once is kept in .cache/llama_cpp and build-llama.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
cache=$root/.cache/llama_cpp
. "$root/examples/packages.sh"

version=0.3.36
sha256=832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e

need_packages g++ cmake make pkg-config libcli11-dev doctest-dev python3 python3-venv
mkdir -p "$cache/models"

# quietly COMMAND...: what it writes is shown if it fails.
quietly() {
  local log
  log=$(mktemp)
  if ! "$@" >"$log" 2>&1; then
    cat "$log" >&2
    rm -f "$log"
    echo "llama_cpp: failed: $*" >&2
    return 1
  fi
  rm -f "$log"
}

python=$cache/venv/bin/python
if ! cmp -s "$here/requirements.txt" "$cache/venv/installed.txt"; then
  python3 -m venv --clear "$cache/venv"
  quietly "$python" -m pip install --quiet --retries 2 -r "$here/requirements.txt"
  cp "$here/requirements.txt" "$cache/venv/installed.txt"
fi

sdist=$cache/llama_cpp_python-$version.tar.gz
is_whole() { echo "$sha256  $sdist" | sha256sum --check --status 2>/dev/null; }
if [ ! -e "$cache/source-$version" ]; then
  if ! is_whole; then
    echo "fetching the sources of llama.cpp: 77 MB"
    # pip compares the hash before it reads what the package says of itself, for which it runs code
    # of it and fetches what builds it.
    rm -f "$sdist"
    echo "llama-cpp-python==$version --hash=sha256:$sha256" >"$cache/sdist.txt"
    quietly "$python" -m pip download --quiet --no-deps --no-binary llama-cpp-python --dest "$cache" \
      --require-hashes -r "$cache/sdist.txt"
    if ! is_whole; then
      echo "llama_cpp: $sdist is not the file that was expected: its SHA-256 is not $sha256" >&2
      exit 1
    fi
  fi
  rm -rf "$cache/unpacking"
  mkdir "$cache/unpacking"
  tar -xzf "$sdist" -C "$cache/unpacking" --strip-components=3 \
    "llama_cpp_python-$version/vendor/llama.cpp"
  mv "$cache/unpacking" "$cache/source-$version"
fi
source=$cache/source-$version
build=$cache/build-$version

# build_llama TARGET...: where it was not built before.
build_llama() {
  local target missing=()
  for target in "$@"; do
    [ -e "$build/built-$target" ] || missing+=("$target")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  echo "building ${missing[*]}: a few minutes"
  # For this machine's processor; neither a server nor anything that fetches models.
  quietly cmake -S "$source" -B "$build" -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF \
    -DGGML_NATIVE=ON -DGGML_CCACHE=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_SERVER=OFF \
    -DLLAMA_BUILD_APP=OFF -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_BUILD_TESTS=OFF
  quietly cmake --build "$build" --target "${missing[@]}" -j "$(nproc)"
  for target in "${missing[@]}"; do touch "$build/built-$target"; done
}

# is_newer FILE OTHER...: whether there is a FILE that was written after all others.
is_newer() {
  local file=$1 other
  shift
  for other in "$@"; do
    [ "$file" -nt "$other" ] || return 1
  done
}

models=$root/examples/models
tokenizer=$models/target/tokenizer.model
made_by=("$here/make_gguf.py" "$here/requirements.txt" "$tokenizer")
# make_gguf MODEL TYPE
make_gguf() {
  local out=$cache/models/$1-${2,,}.gguf
  is_newer "$out" "${made_by[@]}" "$models/$1/model.safetensors" "$models/$1/config.json" && return 0
  quietly "$python" -B "$here/make_gguf.py" --model "$models/$1" --type "$2" --out "$out" \
    --tokenizer "$tokenizer"
}
for type in F32 BF16 Q8_0; do
  make_gguf target "$type"
  make_gguf draft "$type"
done
make_gguf target Q4_0

build_llama llama
# build_own TARGET [CMAKE-FLAG...]
build_own() {
  quietly cmake -S "$here" -B "$root/build-llama" -DLLAMA_CPP="$source" -DLLAMA_CPP_BUILD="$build" \
    -DLLAMA_CPP_MODELS="$cache/models" "${@:2}"
  quietly cmake --build "$root/build-llama" --target "$1" -j "$(nproc)"
}

case "${1:-}" in
  --test)
    if ! is_newer "$cache/models/small-models.made" "${made_by[@]}" "$here/test/small_models.py"; then
      quietly "$python" -B "$here/test/small_models.py" "$tokenizer" "$cache/models"
    fi
    # Another compiler than the tests are run with may warn of more: nobody else is stopped by that.
    build_own test_llama -DCMAKE_COMPILE_WARNING_AS_ERROR=ON
    "$root/build-llama/test_llama" "${@:2}"
    ;;
  --table)
    build_llama llama-completion llama-lookup llama-speculative-simple
    build_own generate_llama
    "$python" -B "$here/table.py" --llama "$build/bin" --own "$root/build-llama/generate_llama" \
      --models "$cache/models" "${@:2}"
    ;;
  "")
    build_own generate_llama
    "$root/build-llama/generate_llama" --model "$cache/models/target-bf16.gguf" \
      --draft "$cache/models/draft-bf16.gguf" --head frequency:3200 --temperature 1
    ;;
  *)
    build_own generate_llama
    "$root/build-llama/generate_llama" "$@"
    ;;
esac
