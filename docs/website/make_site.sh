#!/usr/bin/env bash
# The documentation as a site in docs/_build/site, in an environment of its own: make_site.sh PYTHON [linkcheck]
# With linkcheck the links to other places are tried instead, which needs a network.
# It takes the kernels as they are built in this folder. The notebooks are run, and kept until they change.
set -euo pipefail
cd "$(dirname "$0")/../.."
place=.venv-site
if [ ! -e "$place/.ready" ] || [ pyproject.toml -nt "$place/.ready" ]; then
	[ -d "$place" ] || "$1" -m venv "$place"
	[ -z "${CONSTRAINTS:-}" ] || { grep -vE '^(attrs|mpmath)==' "$CONSTRAINTS" >"$place/pins" && export PIP_CONSTRAINT="$PWD/$place/pins"; }
	"$place/bin/python" -m pip install --quiet --upgrade pip
	"$place/bin/python" -m pip install --quiet "$(grep ^torch== constraints.txt)" # the CPU build
	"$place/bin/python" docs/website/requirements.py | xargs "$place/bin/python" -m pip install --quiet
	touch "$place/.ready"
fi
export IPYTHONDIR="$PWD/docs/_build/ipython" # kernels of the notebooks that do not warn of their own transport
mkdir -p "$IPYTHONDIR/profile_default"
echo "get_config().IPKernelApp.log_level = 40" >"$IPYTHONDIR/profile_default/ipython_kernel_config.py"
export PYTHONPATH="$PWD" OPENBLAS_NUM_THREADS=1
if [ "${2:-}" = linkcheck ]; then
	exec "$place/bin/python" -m sphinx -b linkcheck -q -c docs -d docs/_build/doctrees . docs/_build/linkcheck
fi
"$place/bin/python" -m sphinx -W --keep-going -n -q -j 2 -c docs -d docs/_build/doctrees . docs/_build/site
"$place/bin/python" docs/website/check_site.py docs/_build/site
