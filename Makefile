# Everything runs in .venv, which is made on first use: a machine needs Python 3.11 or newer and make, nothing else.
#
#   make test ARGS="-k settled"     further arguments for pytest
#   make bench WORKLOADS=core       only these workloads
#   make bench PEERS=all            beside other engines
#   make soak SECONDS=3600          fresh schedules of the simulation for so long
#   make PYTHON=python3.13 test     another interpreter (remove .venv first)

PYTHON ?= python3
ARGS ?=
WORKLOADS ?=
PEERS ?=
SECONDS ?= 1800

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
PYTEST := $(BIN)/python -m pytest -n auto --dist worksteal

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test check bench soak clean

help: ## show this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' Makefile

demo: $(VENV)/.with-core ## two trips, many kills, each effect once
	$(BIN)/onceflow demo $(ARGS)

test: $(VENV)/.with-test ## run all tests but the long ones, in parallel
	$(PYTEST) $(ARGS)

check: $(VENV)/.with-dev ## format, lint, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/mutate.py --list > /dev/null

bench: $(VENV)/.with-test ## measure, and compare with the limits
	$(BIN)/python bench/run $(WORKLOADS) $(if $(PEERS),--peers $(PEERS))

soak: $(VENV)/.with-test ## fresh schedules (SECONDS=1800), the long tests, then the mutation check
	PYTHONPATH=$$($(BIN)/python tools/compile_judge.py) \
		$(BIN)/python -P -m tests.tools.simulation --mixed --fresh --seconds $(SECONDS) --jobs $$(nproc)
	$(PYTEST) -m soak --timeout=0 --hypothesis-profile=soak $(ARGS)
	$(BIN)/python tools/mutate.py

clean: ## remove .venv, what was built, the peers' environments and all caches
	rm -rf $(VENV) build bench/.venvs .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp per set of dependencies: nothing is installed again until pyproject.toml changes.
$(VENV)/.with-core: pyproject.toml | $(BIN)/python
	$(PIP) --editable .
	@touch $@

$(VENV)/.with-test: pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[test]'
	@touch $@

$(VENV)/.with-dev: pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[dev]'
	@touch $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit("onceflow needs Python 3.11 or newer: make PYTHON=..." if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
