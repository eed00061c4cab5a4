# SPDX-License-Identifier: Apache-2.0
# Sourced by the scripts of this project: installs the Debian packages that are missing, or says
# exactly what to install where it may not.

# need_packages PACKAGE...
need_packages() {
  local missing=() package
  for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  if ! command -v apt-get >/dev/null; then
    echo "This script installs packages with apt-get, which is not here. It needs what Debian calls:" >&2
    echo "  ${missing[*]}" >&2
    return 1
  fi
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
      as_root=(sudo)
    else
      echo "Missing packages. Please run, and start this script again:" >&2
      echo "  sudo apt-get install ${missing[*]}" >&2
      return 1
    fi
  fi
  echo "installing ${missing[*]}"
  if ! "${as_root[@]}" apt-get install -y -qq "${missing[@]}" >/dev/null 2>&1; then
    "${as_root[@]}" apt-get update -qq &&
      DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq "${missing[@]}" >/dev/null
  fi
}

# The headers of Thrust: from a CUDA toolkit if there is one, else from Debian.
thrust_package() {
  local dir nvcc
  nvcc=$(readlink -f "${CUDACXX:-$(command -v nvcc || true)}" 2>/dev/null) || nvcc=
  for dir in "${nvcc%/bin/nvcc}" "${CUDA_HOME:-}" "${CUDA_PATH:-}" /usr/local/cuda /usr/local/cuda-*; do
    [ -n "$dir" ] && { [ -e "$dir/include/cccl/thrust/sort.h" ] || [ -e "$dir/include/thrust/sort.h" ]; } && return 0
  done
  echo libthrust-dev
}

BUILD_PACKAGES=(g++ cmake make pkg-config libcli11-dev nlohmann-json3-dev libsentencepiece-dev
  libpcre2-dev libutf8proc-dev)
# Of processes that share a vocabulary.
RANKS_PACKAGES=(libopenmpi-dev openmpi-bin)
# Of benchmarks only: what others compute the same with.
BENCH_PACKAGES=(libopenblas-dev)
