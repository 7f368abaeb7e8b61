#!/usr/bin/env bash
# Check what is published: both archives are complete, install in an empty environment, and pass the tests of the public
# names from outside the checkout.   usage: check_wheel.sh DIST_FOLDER
set -euo pipefail
dist=$(cd "$1" && pwd)
root=$(cd "$(dirname "$0")/.." && pwd)
public="test_public_surface test_textbook test_accountants"
wheel=$(ls "$dist"/fastacct-*.whl)
sdist=$(ls "$dist"/fastacct-*.tar.gz)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# The source archive holds what is tracked (but hidden files) and nothing else, the wheel the two packages.
git -C "$root" ls-files | grep -v '^\.' | sort > tracked
tar tzf "$sdist" | sed 's,^[^/]*/,,' | sort > in_sdist
"${PYTHON:-python3}" -m zipfile -l "$wheel" | awk 'NR > 1 { print $1 }' | sort > in_wheel
missing=$(comm -23 tracked in_sdist; grep '^fastacct' tracked | comm -23 - in_wheel)
[ -z "$missing" ] || { echo "missing from the archives: $missing" >&2; exit 1; }
extra=$(comm -13 tracked in_sdist | grep -Ev '^$|/$|PKG-INFO$|\.egg-info/|^setup\.cfg$' || true)
[ -z "$extra" ] || { echo "in the source archive, but not tracked: $extra" >&2; exit 1; }

check='import fastacct as fa, os, sys
from importlib import metadata
assert fa.__version__ == metadata.version("fastacct"), fa.__version__
assert fa.__file__.startswith(sys.prefix), fa.__file__
e = fa.dpsgd.epsilon(noise_multiplier=1.0, sample_rate=0.01, steps=1000, delta=1e-5)
assert abs(e - 1.828236666516577) < 1e-9, e
assert fa.get_include().startswith(sys.prefix), fa.get_include()
assert os.path.isfile(os.path.join(fa.get_include(), "fastacct.h"))
assert os.path.isfile(os.path.join(fa.get_include(), "..", "fastacct.c"))
print("computed", e, "from", fa.__file__, "on", sys.version.split()[0])'
for file in "$sdist" "$wheel"; do
    rm -rf venv
    "${PYTHON:-python3}" -m venv venv
    venv/bin/python -m pip install --quiet "$file"
    venv/bin/python -c "$check"
done

venv/bin/python -m pip install --quiet "$wheel[pld,reference]" pytest hypothesis
cp -r "$root/tests" "$root/README.md" .
venv/bin/python -m pytest -q -p no:cacheprovider --doctest-glob='*.md' README.md $(printf 'tests/%s.py ' $public)
