#!/usr/bin/env bash
# Tests of one adapter with the library that it adapts, in an environment of its own: check_backend.sh PYTHON LIBRARY
set -euo pipefail
cd "$(dirname "$0")/../.."
place=".venv-backends/$2"
if [ ! -e "$place/.ready" ]; then
	"$1" -m venv "$place"
	[ -z "${CONSTRAINTS:-}" ] || { grep -vE '^(attrs|mpmath)==' "$CONSTRAINTS" >"$place/pins" && export PIP_CONSTRAINT="$PWD/$place/pins"; }
	"$place/bin/python" -m pip install --quiet --upgrade pip
	if [ "$2" = opacus ] || [ "$2" = training ]; then
		"$place/bin/python" -m pip install --quiet "$(grep ^torch== constraints.txt)" # the CPU build
	fi
	"$place/bin/python" -m pip install --quiet pytest pytest-timeout pytest-xdist hypothesis numpy
	"$place/bin/python" - "$2" <<-'END' | xargs "$place/bin/python" -m pip install --quiet
		import sys, tomllib
		with open("pyproject.toml", "rb") as file:
		    print(*tomllib.load(file)["project"]["optional-dependencies"][sys.argv[1]])
	END
	touch "$place/.ready"
fi
files=("tests/compat/test_$2"*.py tests/whole/test_refuted.py)
case "$2" in
	opacus) files+=(tests/compat/test_loader_draws.py) ;; # draws from real loaders
	training) files=(tests/compat/test_loader_*.py tests/training) ;;
	flower) files+=(tests/training/test_flower.py tests/training/test_trainings.py) ;;
	nvflare) files=(tests/training/test_nvflare.py tests/training/test_trainings.py) ;;
esac
OPENBLAS_NUM_THREADS=1 PYTHONPATH=. "$place/bin/python" -m pytest -q -n 2 -p no:cacheprovider "${files[@]}" -rs
