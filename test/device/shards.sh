#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The compile gate of executor::sharded_cuda and collective::nccl. Needs nvcc, the headers of NCCL
# 2.28 or newer, of the toolkit or from its package for Python, and no GPU. With `update` it writes
# the budget of the kernels anew.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
nvcc=${CUDACXX:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
cache=${XDG_CACHE_HOME:-$root/.cache}/nccl
budget=$here/budget_of_shards.txt
if ! command -v "$nvcc" >/dev/null; then
  echo "SKIPPED: there is no nvcc"
  exit 77
fi

also=()
if ! echo '#include <nccl_device.h>' | "$nvcc" -std=c++20 -x cu -E - >/dev/null 2>&1; then
  if [ ! -e "$cache/nvidia/nccl/include/nccl_device.h" ]; then
    mkdir -p "$cache"
    python3 -m pip download -q --no-deps -d "$cache" nvidia-nccl-cu13
    python3 - "$cache" <<'END'
import pathlib
import sys
import zipfile

cache = pathlib.Path(sys.argv[1])
for wheel in cache.glob("*.whl"):
    with zipfile.ZipFile(wheel) as package:
        package.extractall(cache, [n for n in package.namelist() if "/include/" in n])
    wheel.unlink()
END
  fi
  also=(--also "$cache/nvidia/nccl/include")
fi

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
python3 "$here/compile.py" --nvcc "$nvcc" --arch sm_90 --include "$root/include" "${also[@]}" \
  --out "$out" "$here/shards.cu"
python3 "$here/budget.py" "${1:-usage}" "$budget" "$out"
"$nvcc" -std=c++20 -Werror=all-warnings -I "$root/include" "${also[@]/#--also/-I}" -arch=sm_90 \
  -c -o "$out/shards_on_nccl.o" "$here/shards_on_nccl.cu"
echo "executor::sharded_cuda on collective::nccl compiles"
