#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# bench/device/fetch_packages.sh DIR
#
# Unpacks into DIR, without installing them, the Debian packages that the programs and the example
# engine need, and the headers of FlashInfer, with which verification is compared: for a machine with
# a GPU and without a network, where bench/gpu.sh --packages DIR finds them. Run it on a machine with
# a network, of the same processor, and no newer than the other one.
set -euo pipefail
[ $# -eq 1 ] || { echo "usage: bench/device/fetch_packages.sh DIR" >&2; exit 2; }
mkdir -p "$1"
into=$(cd "$1" && pwd)

packages=(libcli11-dev nlohmann-json3-dev libsentencepiece-dev libsentencepiece0 libpcre2-dev libpcre2-8-0
  libutf8proc-dev libutf8proc2 pkgconf-bin libpkgconf3)
archives=$(mktemp -d)
trap 'rm -rf "$archives"' EXIT
cd "$archives"
apt-get -o APT::Sandbox::User="$(id -un)" download -qq "${packages[@]}"
for archive in *.deb; do dpkg-deb -x "$archive" "$into"; done
rm -rf "$into/usr/share/doc" "$into/usr/share/man"
# Of the wheel only what is needed: it has the sources of much else. Its templates are no interface,
# and change: bench/device/flashinfer.cu was written for this version.
python3 -m pip download -q --no-deps --only-binary=:all: --platform any -d . flashinfer-python==0.7.2.post1
python3 -m zipfile -e flashinfer_python-*.whl flashinfer
mkdir -p "$into/usr/include/flashinfer"
cp flashinfer/flashinfer/data/include/flashinfer/*.{h,cuh} "$into/usr/include/flashinfer/"
echo "$into: $(du -sh "$into" | cut -f 1)"
