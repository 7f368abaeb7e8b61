# One line per task; every task sets up what it needs in .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
KERNELS := $(shell find fastacct_ext -name '*.h' -o -name '*.c' -not -name '_*.c' -o -name '*.pyx' -o -name '*.pxd' -o -name '*.pxi') setup.py pyproject.toml

# Without what pytest keeps of its files, collection takes twice as long; threads of BLAS would fight for the workers' cores.
unexport PYTHONDONTWRITEBYTECODE
export OPENBLAS_NUM_THREADS := 1

.PHONY: help run quick test near mutants campaign costs tiers oldest attack bench backends lint format types docs proofs explorer explorer-test site accuracy sanitize wheel aarch64 release-check clean

help:      ## list the tasks
	@grep -E '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/:.*## */\t/' | expand -t 12

$(STAMP): $(KERNELS)
	@test ! -e .ci/steps || PYTHON=$(PYTHON) bash -c '. .ci/steps && check_machine'
	test -d $(VENV) || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip setuptools wheel "cython>=3.1"
	$(BIN)/python -m pip install --quiet --no-build-isolation $(if $(CONSTRAINTS),-c $(CONSTRAINTS)) -e ".[dev]"
	touch $(STAMP)

run: $(STAMP)   ## published figures beside exact ones, an exact sweep, a Renyi sweep of 675,000 cells, a plan; result files and pictures
	$(BIN)/python examples/published.py
	$(BIN)/fastacct sweep examples/exact.toml
	$(BIN)/fastacct sweep examples/sweep.toml
	$(BIN)/fastacct sweep examples/plan.toml
	$(BIN)/fastacct show examples/results/plan.zarr --where "epsilon <= 3" --sort noise_multiplier --head 20

# Three tiers: tests/tools/tiers.py says which test is in which, by the seconds in tests/costs.json.
WORKERS ?= 2
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal
quick: $(STAMP)  ## while developing: of every test some cases of at most 0.3 s, in 90 s on two cores
	$(PYTEST) --tier=quick --ignore=tests/explorer   # its browser takes a minute where the explorer has been built

test: $(STAMP)   ## before a merge: all tests but form (lint, docs) and campaigns, in 10 minutes on two quiet cores
	$(PYTEST) --tier=test

near:  ## the tests of one file in a minute: FILE=fastacct/readers/job.py, or a header (SECONDS=60 of process time)
	test -e $(STAMP) || $(MAKE) $(STAMP)   # what is newer than the kernels does not build all of them here
	$(BIN)/python -m tests.near $(FILE) $(SECONDS)

mutants: $(STAMP)  ## rules of changed files are taken out one by one, and the test that must notice runs: two minutes at most (REF=main)
	$(BIN)/python -m tests.take_out --changed $(REF)

campaign: $(STAMP)  ## at night, hours: the tests that are left out of `test`, random examples, attack, all mutants, all adapters
	.ci/campaign

costs: $(STAMP)  ## measure what tests cost and write tests/costs.json: 25 minutes, or FILES="tests/kernels/renyi/test_rdp.py ...", or what is new: FILES=--new
	$(BIN)/python -m tests.costs $(FILES)

tiers: $(STAMP)  ## list every test that `make test` leaves out, with the target that runs it
	$(BIN)/python -m tests.tiers

JOBS ?= 3000
SEED ?= 1
PROCESSES ?= $(shell nproc)
attack: $(STAMP)   ## random jobs of all mechanisms, samplers, relations and verbs, alone and in arrays: no crash, no slow answer, monotone, not below a part, the same bits; bounds of as many random lines against sums in 80 bits (JOBS=3000 SEED=1 PROCESSES=cores)
	$(BIN)/python -m tests.attack --jobs $(JOBS) --seed $(SEED) --processes $(PROCESSES)
	$(BIN)/python -m tests.kernels.test_direct_sums --lines $(JOBS) --seed $(SEED)

bench: $(STAMP)   ## side-by-side benchmark against the peers; installs them (PyTorch CPU build) in .venv
	$(BIN)/python -m pip install --quiet $$(grep ^torch== constraints.txt)
	$(BIN)/python -m pip install --quiet -e ".[peers,bench]" --no-build-isolation
	$(BIN)/python -m bench.compare

# Libraries that have an adapter exclude each other: each has an environment of its own, with the package as it is built here.
BACKENDS ?= dp_accounting opacus
backends: $(STAMP)   ## tests of the adapters in one environment a library: BACKENDS="dp_accounting opacus ..."
	for one in $(BACKENDS); do bash tests/tools/check_backend.sh $(PYTHON) $$one || exit 1; done

oldest: $(STAMP)  ## quick tests with the oldest NumPy and few other libraries, in an environment of its own
	test -d .venv-oldest || $(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet numpy==1.26.4 scipy mpmath gmpy2 pytest pytest-xdist pytest-timeout hypothesis
	PYTHONPATH=. .venv-oldest/bin/python -m pytest -p no:cacheprovider -n $(WORKERS) --dist worksteal --tier=quick

lint: $(STAMP)   ## form of the code: ruff, rooms, sizes, types of wrong calls, and in the kernels nothing that Microsoft's compiler lacks
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m pytest --tier=lint
	$(BIN)/python -m tests.c_rules

format: $(STAMP)   ## apply ruff's formatting
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(STAMP)   ## mypy --strict on the package
	$(BIN)/mypy

docs: $(STAMP)   ## form of the pages: code blocks, links, sentences, tables, examples of every public name
	$(BIN)/python -m pytest --tier=docs README.md docs tests

proofs: $(STAMP)   ## the proofs of the kernels' constants that are run, in ball arithmetic
	$(BIN)/python -m bench.proof_erfc

# The page of fastacct explore: needs node 20 or newer, and for its tests Chromium (CHROMIUM=/usr/bin/chromium).
ZIG_WASM := ziglang==0.15.2   # log2 of 0.17.1 loses half its digits near 1: tests/explorer/test_kernels.py measures it
PACKAGES := explorer/node_modules/.package-lock.json
$(PACKAGES): explorer/package-lock.json
	cd explorer && npm ci --silent --no-audit --no-fund
	touch $@

explorer: $(STAMP) $(PACKAGES)   ## the explorer, one HTML file in fastacct/explorer/: C kernels in WebAssembly, no server
	$(BIN)/python -m pip install --quiet $(ZIG_WASM)
	cd explorer && npm run --silent check
	node explorer/build.mjs $(BIN)/python

explorer-test: explorer   ## its tests: libm, agreement with Python, and a browser
	FASTACCT_EXPLORER_REQUIRED=1 $(BIN)/python -m pytest -s tests/explorer/test_kernels.py tests/explorer/test_samplers.py tests/explorer/test_page.py

site: $(STAMP)   ## the documentation as a site, with its notebooks run: docs/_build/site/index.html, in an environment of its own
	bash docs/website/make_site.sh $(PYTHON)

accuracy: $(STAMP)   ## measure every kernel against the oracle and write docs/accuracy.md
	$(BIN)/python -m tests.accuracy --write docs/accuracy.md

sanitize:  ## kernels under the address and undefined-behaviour sanitizers, in an environment of their own
	test -d .venv-sanitize || $(PYTHON) -m venv .venv-sanitize
	.venv-sanitize/bin/python -m pip install --quiet --upgrade pip setuptools wheel "cython>=3.1"
	rm -rf build fastacct_ext/*.so $(STAMP)
	FASTACCT_BUILD=sanitize .venv-sanitize/bin/python -m pip install --quiet --no-build-isolation -e ".[dev]"
	LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so)" ASAN_OPTIONS=detect_leaks=0 \
		.venv-sanitize/bin/python -m pytest -p no:cacheprovider tests/kernels/renyi/test_rdp.py tests/whole/test_extreme_runs.py tests/kernels/invert/test_calibrate.py tests/kernels/line/test_mixtures.py tests/kernels/line/test_different_steps.py
	rm -rf build fastacct_ext/*.so

wheel: $(STAMP)   ## sdist and wheel, installed and used in an empty environment
	$(BIN)/python -m build --outdir dist .
	bash tests/tools/check_wheel.sh dist

ZIG := ziglang==0.17.1
ARM := qemu-user libc6-arm64-cross
AS_ROOT := $(shell test "$$(id -u)" = 0 || echo sudo)
aarch64: $(STAMP)   ## the kernels on 64-bit Arm: cross-compiled, run under emulation, compared with this processor's
	$(BIN)/python -m pip install --quiet $(ZIG)
	command -v qemu-aarch64 && test -d /usr/aarch64-linux-gnu || \
		{ $(AS_ROOT) apt-get update -qq && $(AS_ROOT) apt-get install -y -qq --no-install-recommends $(ARM); }
	$(BIN)/python -m tests.aarch64

release-check: $(STAMP)   ## all of a release but the upload: versions, archives twice, the wheel's own tests, 64-bit Arm
	.ci/release_check

clean:     ## remove the environment and everything built
	rm -rf $(VENV) .venv-sanitize .venv-oldest .venv-backends .venv-site docs/_build docs/reference/api explorer/node_modules explorer/made fastacct/explorer build dist *.egg-info fastacct_ext/_*.c fastacct_ext/*.so .pytest_cache .mypy_cache .ruff_cache .hypothesis examples/results
