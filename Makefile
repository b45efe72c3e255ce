# make demo, make test: each sets up its own .venv first. Needs Python 3.11 or newer with pip and venv.
PYTHON ?= python3
# Another Python has an environment of its own: make quick PYTHON=python3.13 VENV=.venv-3.13
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
TESTS := $(BIN)/python -m pytest -n 2 --dist loadgroup

.PHONY: demo quick test test-all lint docs papers benchmarks lock clean

demo: $(READY)
	$(BIN)/dpsurvey demo --out demo-out

# Two minutes: one test or more of each subject, and the examples of everything that reads no rows.
quick: lint
	$(TESTS) -m "quick and not slow"

# Ten minutes: everything but long siblings of tests that run anyway, and studies.
test: lint
	$(TESTS) -m "not slow"

test-all: lint
	$(TESTS)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Everything of the five papers at full effort, and the gallery of the documentation from it.
papers: $(READY)
	$(BIN)/dpsurvey papers run --all --out papers-out
	$(BIN)/dpsurvey papers pages papers-out --docs docs/papers

# Open site/index.html: it needs no server and no network.
docs: $(READY)
	rm -rf site
	$(BIN)/python -m sphinx -W --keep-going -n -q -E -d site/.trees docs site
	rm -rf site/.trees

benchmarks: $(READY)
	$(BIN)/python benchmarks/start.py
	$(BIN)/python benchmarks/release.py
	$(BIN)/python benchmarks/coverage.py --quick
	$(BIN)/python benchmarks/files.py
	$(BIN)/python benchmarks/coverage_files.py --quick
	$(BIN)/python benchmarks/amplify.py
	$(BIN)/python -m pip install --quiet svy polars
	$(BIN)/python benchmarks/draw.py
	$(BIN)/python benchmarks/sublinear.py
	$(BIN)/python benchmarks/estimate.py
	$(BIN)/python benchmarks/ledger.py
	$(BIN)/python benchmarks/growth.py
	$(BIN)/python benchmarks/local.py
	$(BIN)/python benchmarks/allocation.py
	$(BIN)/python benchmarks/rates.py
	$(BIN)/python benchmarks/plan.py
	$(BIN)/python benchmarks/papers.py

$(READY): requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("dpsurvey needs Python 3.11 or newer") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $(READY)

# Writes the lock file anew; names and hashes only, options such as an index are left out.
lock: $(READY)
	$(BIN)/python -m pip install --quiet pip-tools
	$(BIN)/pip-compile --quiet --generate-hashes --no-header --no-annotate --strip-extras --allow-unsafe --extra test --output-file .lock.txt pyproject.toml
	grep -v '^--' .lock.txt > requirements.lock
	rm .lock.txt

clean:
	rm -rf .venv .venv-3.* demo-out site docs/reference/_generated papers-out
