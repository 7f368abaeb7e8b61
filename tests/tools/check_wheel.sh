#!/usr/bin/env bash
# Check what is published: both archives are complete, install in an empty environment, and pass the tests of the public
# names from outside the checkout.   usage: check_wheel.sh DIST_FOLDER
set -euo pipefail
dist=$(cd "$1" && pwd)
root=$(cd "$(dirname "$0")/../.." && pwd)
public="whole/test_public_surface textbook/test_textbook accountants/test_older"
wheel=$(ls "$dist"/fastacct-*.whl)
sdist=$(ls "$dist"/fastacct-*.tar.gz)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# The source archive holds what is tracked (but hidden files) and nothing else but a built explorer page, the wheel the
# two packages.
git -C "$root" ls-files | grep -v '^\.' | sort > tracked
tar tzf "$sdist" | sed 's,^[^/]*/,,' | sort > in_sdist
"${PYTHON:-python3}" -m zipfile -l "$wheel" | awk 'NR > 1 { print $1 }' | sort > in_wheel
missing=$(comm -23 tracked in_sdist; grep '^fastacct' tracked | comm -23 - in_wheel)
[ -z "$missing" ] || { echo "missing from the archives: $missing" >&2; exit 1; }
extra=$(comm -13 tracked in_sdist | grep -Ev '^$|/$|PKG-INFO$|\.egg-info/|^setup\.cfg$|^fastacct/explorer/index\.html$' || true)
[ -z "$extra" ] || { echo "in the source archive, but not tracked: $extra" >&2; exit 1; }

for file in "$sdist" "$wheel"; do
    rm -rf venv
    "${PYTHON:-python3}" -m venv venv
    venv/bin/python -m pip install --quiet "$file"
    venv/bin/python "$root/tests/tools/check_wheel.py"
done

venv/bin/python -m pip install --quiet "$wheel[pld,reference]" pytest hypothesis
cp -r "$root/tests" "$root/README.md" .
venv/bin/python -m pytest -q -p no:cacheprovider --doctest-glob='*.md' README.md $(printf 'tests/%s.py ' $public)
