# Each target makes the virtual environment that it needs. `make` alone lists the targets.
#
# PYTHON is the interpreter that the environment is made from, 3.11 or newer. Packages are
# fetched as pip is configured on this machine.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.daybook-installed
COMPILED := .venv-compiled
COMPILED_STAMP := $(COMPILED)/.daybook-installed
ROOMS := client engine history journal paging pipeline protocols recovery server tools

FUZZERS := $(patsubst tests/fuzz/%.py,tests.fuzz.%,$(filter-out %/__init__.py %/running.py,$(wildcard tests/fuzz/*.py)))

# Arguments that are handed on.
ARGS ?=
COMPILE ?=
PYTEST_ARGS ?=
JOBS ?= 0
BENCH_ARGS ?=
SEED ?=
STEPS ?= 2000
SECONDS ?= 60
TIMES ?= 10

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help venv demo pipeline-demo test test-compiled serve lint format map bench sim attack fuzz wheel build-compiled clean check-python

help: ## list the targets
	@echo "Daybook: a durable message broker. Targets:"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

check-python:
	@command -v "$(PYTHON)" >/dev/null || { \
	  echo "make: '$(PYTHON)' was not found; install Python 3.11 or newer, or name one: make PYTHON=/path/to/python3" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "make: '$(PYTHON)' is $$("$(PYTHON)" --version 2>&1), Daybook needs 3.11 or newer; name one: make PYTHON=/path/to/python3" >&2; exit 1; }
	@"$(PYTHON)" -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo "make: '$(PYTHON)' cannot make virtual environments; install its venv module (Debian, Ubuntu: apt install python3-venv)" >&2; exit 1; }

$(STAMP): pyproject.toml setup.py | check-python
	"$(PYTHON)" -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	DAYBOOK_COMPILE=0 $(BIN)/python -m pip install --quiet --editable . --group test --group lint
	@touch $@

SOURCES := $(foreach room,$(ROOMS),$(wildcard $(room)/*.py $(room)/*/*.py))

$(COMPILED_STAMP): pyproject.toml setup.py $(SOURCES) | check-python
	"$(PYTHON)" -m venv $(COMPILED)
	$(COMPILED)/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	rm -rf build
	DAYBOOK_COMPILE=1 $(COMPILED)/bin/python -m pip install --quiet --force-reinstall . --group test
	rm -rf build
	@touch $@

venv: $(STAMP) ## make the virtual environment .venv with everything below

demo: $(STAMP) ## kill a broker twice under load and prove that nothing was lost
	$(BIN)/python -P -m daybook.tools.demo $(ARGS)

pipeline-demo: $(STAMP) ## ask the history of a broker that was killed with SQL, jobs and Spark
	$(BIN)/python -P -m daybook.tools.pipeline_demo $(ARGS)

serve: $(STAMP) ## run a broker in the foreground (ARGS="--data DIR --listen stomp://127.0.0.1:61613")
	$(BIN)/daybook serve $(ARGS)

test: $(STAMP) ## run the test suite, JOBS=n for as many at a time (PYTEST_ARGS="-k name -x")
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile $(PYTEST_ARGS)

test-compiled: $(COMPILED_STAMP) ## run the tests of the rooms against the compiled build
	$(COMPILED)/bin/python -m pytest -p no:cacheprovider $(PYTEST_ARGS) tests/unit tests/property

lint: $(STAMP) ## check style, types, layers and spelling
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/codespell *.md docs etc $(ROOMS) bench

format: $(STAMP) ## format the sources
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

map: $(STAMP) ## draw the map of modules, docs/events.md and the tree of errors anew
	$(BIN)/python -m tests.meta.rooms_map
	$(BIN)/python -m tests.meta.events_page
	$(BIN)/python -m tests.meta.schema_page
	$(BIN)/python -m tests.meta.errors_tree
	$(BIN)/python -m tests.meta.metrics_page

bench: $(STAMP) $(if $(filter 1,$(COMPILE)),$(COMPILED_STAMP)) ## measure (COMPILE=1 for the compiled build; BENCH_ARGS="...")
	$(BIN)/python -m bench.run $(if $(filter 1,$(COMPILE)),--python $(abspath $(COMPILED)/bin/python)) $(BENCH_ARGS)

sim: $(STAMP) ## simulate the whole broker with faults (SEED=n STEPS=m)
	$(BIN)/python -m tests.simulation.run $(if $(SEED),--seed $(SEED)) --steps $(STEPS)

attack: $(STAMP) ## attack brokers beside an honest client, longer than `make test` (TIMES=n)
	DAYBOOK_ATTACK=$(TIMES) $(BIN)/python -m pytest $(PYTEST_ARGS) tests/attack

fuzz: $(STAMP) ## feed each parser with anything (SECONDS=n for each, SEED=n to repeat)
	@set -e; for target in $(FUZZERS); do \
	  echo "$(BIN)/python -m $$target"; \
	  $(BIN)/python -m $$target --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)); \
	done

wheel: $(STAMP) ## build dist/*.whl (DAYBOOK_COMPILE=1 compiles the hot modules)
	rm -rf build
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

build-compiled: $(COMPILED_STAMP) ## install the compiled broker into .venv-compiled

clean: ## remove what was built and measured, and the virtual environments
	rm -rf build dist $(VENV) $(COMPILED) demo-data *.egg-info
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
