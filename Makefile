# `make fast` is for every change; `make check` is what CI runs, in this order, in about 38 minutes on two cores. Each
# target can be run alone; tests come last.

ifeq ($(OS),Windows_NT)
PYTHON ?= python
endif
PYTHON ?= python3
# The lowest dependency versions have wheels for Python 3.11.
PYTHON_LOWEST ?= $(or $(shell command -v python3.11),$(PYTHON))

# Compiled modules are kept, whatever the shell says: tests start many processes, and each would compile every package anew.
export PYTHONDONTWRITEBYTECODE :=

VENV := .venv
ifeq ($(OS),Windows_NT)
BIN := $(VENV)/Scripts
else
BIN := $(VENV)/bin
endif
JOBS := 2
LOWEST := .venv-lowest
DOCS := .venv-docs

.DEFAULT_GOAL := check
.NOTPARALLEL:
.PHONY: fast check nightly venv lint types layers lowest torch bench studies papers test docs dist installed extras audit release

FAST := -m "not engine and not slow" tests/unit tests/contracts

# Without Java, PostgreSQL or a network.
fast: venv lint types layers
	$(BIN)/python -m pytest -q -n 2 --dist worksteal $(FAST) tests/architecture

# Minutes of each part on two cores that nothing else uses, the environment built anew. The run prints them beside the
# minutes that it took. With 2 minutes for the system packages of .ci/run, they add up to the 40 minutes of CI.
BUDGETS := venv=4 lint=0.5 types=1.5 layers=0.5 bench=4 test=27.5

check: export CI := true
check:
	@$(PYTHON) tools/parts.py $(MAKE) $(BUDGETS)

# Everything at full size, and the lowest versions of the dependencies. Takes hours.
nightly: export CI := true
nightly: venv lint types layers lowest installed extras torch bench studies docs
	$(BIN)/python -m pytest -n 2 --dist worksteal --full

venv: $(VENV)/installed

$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet "pip>=25.1"
	$(if $(LOCKED),$(BIN)/python -m pip install --quiet --no-compile --no-deps --require-hashes --requirement requirements/development.txt)
	$(BIN)/python -m pip install --quiet --no-compile $(if $(LOCKED),--no-deps --no-build-isolation) --editable ".[all]" $(if $(LOCKED),,--group dev)
	@touch $@

lint: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: venv
	$(BIN)/mypy

layers: venv
	$(BIN)/lint-imports

$(LOWEST)/installed: pyproject.toml requirements/lowest.txt
	$(PYTHON_LOWEST) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet "pip>=25.1"
	$(LOWEST)/bin/python -m pip install --quiet --no-compile --requirement requirements/lowest.txt --group test "pandas>=2.2,<3"
	@touch $@

# The wheel with the lowest versions that it allows, and without extras.
lowest: dist $(LOWEST)/installed
	$(LOWEST)/bin/python -m pip install --quiet --no-compile --force-reinstall --no-deps dist/*.whl
	$(LOWEST)/bin/python -m pip check
	$(LOWEST)/bin/python -m pytest -n $(JOBS) --dist worksteal --lowest --installed $(FAST)

TORCH := .venv-torch

$(TORCH)/installed: pyproject.toml
	$(PYTHON) -m venv $(TORCH)
	$(TORCH)/bin/python -m pip install --quiet "pip>=25.1"
	$(TORCH)/bin/python -m pip install --quiet --no-compile --editable ".[onnx]" --group torch
	@touch $@

# Real tensors: torch and JAX, on the CPU.
torch: $(TORCH)/installed
	$(TORCH)/bin/python -m pytest -q tests/unit/test_tensors.py tests/engine/test_torch.py

# Limits on speed, which tests cannot check beside each other.
bench: venv
	$(BIN)/python benchmarks/fit.py --quick --gate
	$(BIN)/python benchmarks/metrics.py --quick --gate
	$(BIN)/python benchmarks/store.py --quick --gate
	$(BIN)/python benchmarks/many_segments.py --quick --gate
	$(BIN)/python benchmarks/online.py --quick --gate
	$(BIN)/python benchmarks/scorer.py --quick --gate
	$(BIN)/python benchmarks/engine.py --quick --gate --rounds 2
	$(BIN)/python -W ignore benchmarks/multiclass.py --speed --quick --gate

# Simulations of guarantees and comparisons of quality, at quick size; each night. The tests repeat the guarantees.
studies: venv
	$(BIN)/python benchmarks/certificates.py --quick
	$(BIN)/python benchmarks/significance.py --quick
	$(BIN)/python benchmarks/intervals.py --quick --fresh
	$(BIN)/python benchmarks/verdict.py --quick
	$(BIN)/python benchmarks/abstention.py --quick
	$(BIN)/python -W ignore benchmarks/covariate_shift.py --quick
	$(BIN)/python benchmarks/adversaries.py
	$(BIN)/python -W ignore benchmarks/quality.py --quick --jobs 2
	$(BIN)/python -W ignore benchmarks/multiclass.py --quick --gate

# The table of printed claims beside our values, and docs/papers: about a minute of processor time. Needs the data that
# CALIBRANT_DATA names.
papers: venv
	OMP_NUM_THREADS=1 $(BIN)/python -W ignore benchmarks/papers/table/compare.py

test: venv
	$(BIN)/python -m pytest -n 2 --dist worksteal

$(DOCS)/installed: pyproject.toml
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -m pip install --quiet "pip>=25.1"
	$(DOCS)/bin/python -m pip install --quiet --no-compile --editable ".[plot,fast,onnx,sql]" --group docs
	@touch $@

# The site, in docs/_build/html: needs no network once it is installed; a warning or a broken link is an error.
docs: $(DOCS)/installed
	rm -rf docs/_build/html
	$(DOCS)/bin/python -m sphinx --builder html --doctree-dir docs/_build/doctrees --fail-on-warning --keep-going --quiet \
		docs docs/_build/html
	$(DOCS)/bin/python tools/docs_links.py docs/_build/html

# The wheel and the source archive, in `dist`: built twice, with the same bits, and nothing but the package in the wheel.
dist: venv
	$(BIN)/python tools/build_check.py --out dist

INSTALLED := .venv-installed

# The wheel in an empty environment, with the newest versions of everything: the tests see it, not the checkout.
installed: dist
	$(PYTHON) -m venv --clear $(INSTALLED)
	$(INSTALLED)/bin/python -m pip install --quiet "pip>=25.1"
	$(INSTALLED)/bin/python -m pip install --quiet --no-compile "$$(echo dist/*.whl)[all]" --group dev
	$(INSTALLED)/bin/python -m pytest -n $(JOBS) --dist worksteal --installed $(FAST)

# Each extra alone, and the package without one.
extras: dist
	$(BIN)/python tools/extras.py dist/*.whl

AUDIT := .venv-audit

# Known weaknesses of the locked versions. Asks a database on the network; a package that it does not know is a failure.
audit:
	$(PYTHON) -m venv --clear $(AUDIT)
	$(AUDIT)/bin/python -m pip install --quiet --no-compile pip-audit
	$(AUDIT)/bin/pip-audit --strict --disable-pip --no-deps --requirement requirements/development.txt

# Fails while an action of a workflow is not pinned by the hash of a commit, or a base image by its digest.
pinned:
	$(PYTHON) tools/pins.py --check

# What a release needs beside `make check`: the archives, tested where they are installed, the site, and the bill of
# materials.
release: export CI := true
release: venv installed lowest extras audit docs
	$(BIN)/python tools/dependencies.py --licenses --materials dist/materials.cdx.json
