#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Do the scripts that a user may call first install what they need? Each is run in a clone of what
# is committed, on a machine that seems bare: what it installs is noted, and it configures with all
# packages but these disabled. It ends where it would begin to build. The packages are installed
# here, by the tests, so that they can be asked what they bring. Not among them is
# examples/llama_cpp/run.sh, which fetches 77 MB, and builds llama.cpp before it configures.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git clone -q . "$work/tree"
export BARE_WORK=$work BARE_CMAKE=$(command -v cmake) BARE_QUERY=$(command -v dpkg-query)
# Every package that any CMake file of the tree asks for.
export BARE_KNOWN=$(git ls-files -z '*CMakeLists.txt' '*.cmake' '*.in' |
  xargs -0 sed -nE 's/^ *find_package\(([A-Za-z0-9_]+).*/\1/p' | sort -u | tr '\n' ' ')

mkdir "$work/bin"
stand_in() { cat >"$work/bin/$1"; chmod +x "$work/bin/$1"; }
printf '#!/bin/sh\nexit 1\n' | stand_in nvidia-smi
printf '#!/bin/sh\nexit 1\n' | stand_in dpkg-query
printf '#!/bin/sh\necho 0\n' | stand_in id
stand_in apt-get <<'EOF'
#!/usr/bin/env bash
for word in "$@"; do
  case $word in install | update | -*) ;; *) echo "$word" >>"$BARE_WORK/installed" ;; esac
done
EOF
stand_in cmake <<'EOF'
#!/usr/bin/env bash
set -euo pipefail
case $1 in
  --build) exit 99 ;;
  -E | --version) exec "$BARE_CMAKE" "$@" ;; # pip asks what it is
esac
pkg_config=$BARE_WORK/pkg-config
mkdir -p "$pkg_config"
brought=" "
while read -r package; do
  case $package in # what CMake itself knows to find
    g++) brought+="Threads OpenMP " ;;
    pkg-config) brought+="PkgConfig " ;;
    python3) brought+="Python3 " ;;
  esac
  for file in $("$BARE_QUERY" -L "$package" 2>/dev/null); do
    case $file in
      *-config.cmake) brought+="$(basename "$file" -config.cmake) " ;;
      *Config.cmake) brought+="$(basename "$file" Config.cmake) " ;;
      *.pc) ln -sf "$file" "$pkg_config" ;;
    esac
  done
done <"$BARE_WORK/installed"
options=(-DCMAKE_CUDA_COMPILER=NOTFOUND)
for package in $BARE_KNOWN; do
  case $brought in *" $package "*) ;; *) options+=("-DCMAKE_DISABLE_FIND_PACKAGE_$package=ON") ;; esac
done
if [ -e /usr/include/thrust/sort.h ]; then options+=(-DHUNCH_THRUST_INCLUDE_DIR=/usr/include); fi
echo "${options[@]}" >"$BARE_WORK/options"
PKG_CONFIG_LIBDIR=$pkg_config "$BARE_CMAKE" "$@" "${options[@]}" && touch "$BARE_WORK/configured"
EOF
# Of torch only its place and version are asked for when operators are configured.
python3 -m venv "$work/python"
torch=$("$work/python/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch
mkdir "$torch"
touch "$torch/__init__.py"
printf '__version__ = "2.0.0"\ncuda = None\n' >"$torch/version.py"

failed=no
bare() { # PACKAGE-THAT-IT-DOES-NOT-INSTALL SCRIPT...
  local missing=$1
  shift
  rm -rf "$work"/{installed,configured,options,pkg-config} "$work"/tree/build*
  touch "$work/installed"
  (cd "$work/tree" && PATH="$work/bin:$PATH" "$@") >"$work/log" 2>&1 || true
  if [ ! -e "$work/configured" ]; then
    tail -n 20 "$work/log"
    echo "bare machine: $* does not configure with what it installs: $(tr '\n' ' ' <"$work/installed")"
    failed=yes
  elif ! grep -q "DISABLE_FIND_PACKAGE_$missing=ON" "$work/options"; then
    echo "bare machine: $* was to be tried without $missing, and was not"
    failed=yes
  else
    echo "bare machine: $* configures"
  fi
}

bare doctest ./examples/quickstart.sh
bare doctest ./examples/tune.sh --model examples/models/target --text examples/models/heldout --out out
bare doctest ./bench/run.sh engine
bare doctest ./bench/run.sh vocab
bare nlohmann_json env PYTHON="$work/python/bin/python" ./examples/torch_op/build.sh
bare CUDAToolkit ./test/run.sh
[ "$failed" = no ]
