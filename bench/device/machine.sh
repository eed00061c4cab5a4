# SPDX-License-Identifier: Apache-2.0
# Sourced by the scripts that need a CUDA device: what this machine has of it. For any POSIX shell.

# The CUDA compiler; fails if there is none.
find_nvcc() {
  for nvcc_path in "${CUDACXX:-}" "$(command -v nvcc)" "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc"; do
    if [ -n "$nvcc_path" ] && [ -x "$nvcc_path" ]; then
      echo "$nvcc_path"
      return 0
    fi
  done
  return 1
}

# gpu_property NAME: a property of the first GPU, as nvidia-smi names it; fails if there is none.
gpu_property() {
  gpu_answer=$(nvidia-smi --query-gpu="$1" --format=csv,noheader 2>/dev/null) || return 1
  gpu_answer=$(printf '%s\n' "$gpu_answer" | head -n 1)
  [ -n "$gpu_answer" ] && printf '%s\n' "$gpu_answer"
}

# The architecture of the first GPU as CMake names it, 90 for compute capability 9.0.
gpu_architecture() {
  gpu_property compute_cap | tr -d '. '
}
