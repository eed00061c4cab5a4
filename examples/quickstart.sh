#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the example engine and writes a text with the shipped models, by plain and by speculative
# decoding. Arguments are passed on to build/examples/generate; --help lists them.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")
. "$here/packages.sh"
. "$here/build.sh"

need_packages "${BUILD_PACKAGES[@]}" $(thrust_package)
build_examples quickstart "$root" generate
"$root/build/examples/generate" "$@"
