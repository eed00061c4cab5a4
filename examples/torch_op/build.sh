#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the package, tests it, and runs verify.py.
#
#   ./build.sh                          in an environment of its own, .cache/torch_op, where torch is
#                                       installed first if it is not there
#   PYTHON=path/to/python ./build.sh    for the torch that this Python has; nothing is installed there
#
# The package goes to build-torch/python. It is built for CUDA, too, where there is an nvcc;
# CMAKE_ARGS=-DHUNCH_TORCH_CUDA=OFF leaves that out.
#
# The package index has no build of torch without CUDA for x86-64, and that with CUDA brings CUDA's
# libraries along: 3 GB to download, 5.5 GB on disk.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
. "$root/examples/packages.sh"

packages=(g++ cmake make python3)
if command -v dpkg-query >/dev/null; then
  need_packages "${packages[@]}"
else # then what counts is whether they are there
  missing=()
  for package in "${packages[@]}"; do command -v "$package" >/dev/null || missing+=("$package"); done
  [ ${#missing[@]} -eq 0 ] || need_packages "${missing[@]}"
fi
if [ -n "${PYTHON:-}" ]; then
  # A name or a relative path is meant from here. Of a link only the folder is resolved: the
  # interpreter of an environment is a link, which says where the environment is.
  given=$PYTHON
  if ! PYTHON=$(command -v "$given"); then
    echo "torch_op: there is no $given" >&2
    exit 1
  fi
  PYTHON=$(cd "$(dirname "$PYTHON")" && pwd)/$(basename "$PYTHON")
fi
if [ -z "${PYTHON:-}" ]; then
  venv=$root/.cache/torch_op
  PYTHON=$venv/bin/python
  if ! cmp -s "$here/requirements.txt" "$venv/installed.txt"; then
    python3 -c 'import ensurepip' 2>/dev/null || need_packages python3-venv
    python3 -m venv --clear "$venv"
    echo "installing torch: 3 GB, a few minutes"
    # What is kept is the environment; a second copy of it in pip's cache would only take room.
    if ! "$venv/bin/pip" install --quiet --no-cache-dir --no-compile --retries 2 -r "$here/requirements.txt"; then
      echo "torch_op: pip could not install torch; is there a network, and room for 5.5 GB?" >&2
      echo "If another Python has torch: PYTHON=path/to/python $0" >&2
      exit 1
    fi
    cp "$here/requirements.txt" "$venv/installed.txt"
  fi
  if ! cmp -s "$here/requirements_transformers.txt" "$venv/installed_transformers.txt"; then
    "$venv/bin/pip" install --quiet --no-cache-dir --no-compile --retries 2 -r "$here/requirements_transformers.txt"
    cp "$here/requirements_transformers.txt" "$venv/installed_transformers.txt"
  fi
fi
if [ -z "${CUDACXX:-}" ] && ! command -v nvcc >/dev/null && [ -x /usr/local/cuda/bin/nvcc ]; then
  export CUDACXX=/usr/local/cuda/bin/nvcc
fi

build=$root/build-torch
rm -rf "$build/python" "$build/test"
"$PYTHON" -m pip install --disable-pip-version-check --no-deps --upgrade --target "$build/python" \
  --config-settings cmake.define.CMAKE_COMPILE_WARNING_AS_ERROR=ON "$here"

# In a directory without the source of the package, which Python would find first.
mkdir -p "$build/test"
cp "$here"/*.py "$build/test"
export PYTHONPATH=$build/python${PYTHONPATH:+:$PYTHONPATH}
cd "$root"
for name in ops op_calls functions function_calls shortlists engine_patch; do
  "$PYTHON" -B "$build/test/test_$name.py"
done
"$PYTHON" -B "$build/test/test_package.py" "$here"
if "$PYTHON" -c 'import sentencepiece, transformers' 2>/dev/null; then
  "$PYTHON" -B "$build/test/test_transformers.py"
  "$PYTHON" -B "$build/test/test_transformers_models.py"
else
  echo "hunch.transformers is not tested: $PYTHON has no transformers, or no sentencepiece" >&2
fi
"$PYTHON" -B "$build/test/verify.py"
