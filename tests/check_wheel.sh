#!/usr/bin/env bash
# Install the built wheel, and the sdist, each in an empty environment; import and compute there.   usage: check_wheel.sh DIST_FOLDER
set -euo pipefail
dist=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
check='import fastacct as fa, sys
e = fa.dpsgd.epsilon(noise_multiplier=1.0, sample_rate=0.01, steps=1000, delta=1e-5)
assert abs(e - 1.828236666516577) < 1e-9, e
print("computed", e, "from", fa.__file__, "on", sys.version.split()[0])'
for file in "$dist"/fastacct-*.whl "$dist"/fastacct-*.tar.gz; do
    rm -rf venv
    "${PYTHON:-python3}" -m venv venv
    venv/bin/python -m pip install --quiet "$file"
    venv/bin/python -c "$check"
done
