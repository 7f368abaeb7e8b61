#!/usr/bin/env bash
# A wheel for 64-bit Arm: cross-compiled from a source archive by Zig, and its own test by Debian's Python for Arm under
# emulation.  On Debian, with the emulator that `make aarch64` installs.   usage: check_wheel.sh PYTHON ARCHIVE
set -euo pipefail
python=$(cd "$(dirname "$1")" && pwd)/$(basename "$1") # which has ziglang
archive=$(realpath "$2")
here=$(cd "$(dirname "$0")" && pwd)
minor=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# Debian's packages for Arm, in a folder of their own: what is installed here is not touched.
mkdir -p lists/partial cache/archives/partial root
touch status
apt=(apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o "Dir::State::lists=$work/lists"
    -o "Dir::Cache=$work/cache" -o "Dir::State::status=$work/status" -o APT::Sandbox::User=root)
"${apt[@]}" update
for package in "python$minor-minimal" "libpython$minor-minimal" "libpython$minor-stdlib" libc6 libgcc-s1 libstdc++6 \
    libexpat1 zlib1g libssl3 libffi8 libbz2-1.0 liblzma5 libcrypt1; do
    "${apt[@]}" download "$package:arm64"
done
for package in *.deb; do
    dpkg-deb -x "$package" root
done

zig=$("$python" -c 'import os, ziglang; print(os.path.join(os.path.dirname(ziglang.__file__), "zig"))')
compiler="$zig cc -target aarch64-linux-gnu.2.28"
CC="$compiler" LDSHARED="$compiler -shared" _PYTHON_HOST_PLATFORM=linux-aarch64 \
    SETUPTOOLS_EXT_SUFFIX=".cpython-${minor/./}-aarch64-linux-gnu.so" \
    "$python" -m pip wheel --quiet --no-deps --wheel-dir wheel "$archive"
site=$work/root/usr/lib/python3/dist-packages
install=("$python" -m pip install --quiet --only-binary=:all: --target "$site" --python-version "$minor")
"${install[@]}" --platform manylinux_2_28_aarch64 --platform manylinux_2_27_aarch64 --platform manylinux2014_aarch64 numpy
"${install[@]}" --platform linux_aarch64 --no-deps wheel/*.whl
run=(qemu-aarch64 -L "$work/root" -E "PYTHONPATH=$site" "$work/root/usr/bin/python$minor")
"${run[@]}" -c 'import platform; assert platform.machine() == "aarch64"'
"${run[@]}" "$here/../check_wheel.py"
