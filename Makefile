# Each target installs what it needs and no more, once. `make` alone lists the targets.
#
# PYTHON is the interpreter that the environment is made from, 3.11 or newer. Packages are
# fetched as pip is configured on this machine, in the versions of requirements.lock.

PYTHON ?= python3
ROOMS := client console engine history journal paging pipeline protocols recovery replication server tools
SOURCES := pyproject.toml setup.py README.md LICENSE \
  $(sort $(shell find etc src $(ROOMS) -type f ! -name '*.pyc'))

# What to do about the lock: prefer it (a version that is not to be had is no obstacle), `required`
# to fail then, `ignored` for the newest versions that pyproject.toml allows.
LOCK ?=

# The environment, and a stamp for each set of packages that was installed into it.
VENV := .venv
BIN := $(VENV)/bin
MADE := $(VENV)/.made
BROKER := $(VENV)/.broker
DEMO := $(VENV)/.demo
SQL := $(VENV)/.sql
CONSOLE := $(VENV)/.console
PIPELINE := $(VENV)/.pipeline
TEST := $(VENV)/.test
LINT := $(VENV)/.lint
FUZZ := $(VENV)/.fuzz
RELEASE := $(VENV)/.release
DOCS := $(VENV)/.docs

# Python compiles a module when it first imports it: that is less than all that is installed.
INSTALL := -m pip install --quiet --no-compile
# The dependencies of the named extras and groups, then the project itself, built with what is there.
DEPENDENCIES := -m release.installation
PROJECT := $(INSTALL) --no-deps --no-build-isolation
LOCKED := pyproject.toml requirements.lock
export DAYBOOK_LOCK := $(LOCK)
# Tests turn warnings into errors, also those about the sources of packages, which compiling prints.
COMPILE_ALL := -m compileall -qq -j 0
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# The environment of the compiled wheel.
COMPILED := .venv-compiled
COMPILED_MADE := $(COMPILED)/.made
COMPILED_BROKER := $(COMPILED)/.broker
COMPILED_TEST := $(COMPILED)/.test

# The environment of the search for known vulnerabilities.
AUDIT_VENV := .venv-audit
AUDIT_MADE := $(AUDIT_VENV)/.made
AUDIT := $(AUDIT_VENV)/.audit

# Those that coverage guides, and those that only draw seeds.
GUIDED := frames sessions amqp
FUZZERS := $(patsubst tests/fuzz/%.py,tests.fuzz.%,$(filter-out %/__init__.py %/running.py,$(wildcard tests/fuzz/*.py)))

# Somebody may have installed a copy over the checkout, as `pip install '.[sql]'` does. Then the
# stamps lie, and `git pull` changes nothing that runs; so the checkout is installed again.
COPIED := $(wildcard $(VENV)/lib/python3*/site-packages/daybook/__init__.py)
$(if $(COPIED),$(shell rm -f $(BROKER) $(CONSOLE) $(DEMO) $(SQL) $(PIPELINE) $(TEST) $(LINT) $(FUZZ) $(RELEASE)))

# Arguments that are passed on.
ARGS ?=
COMPILE ?=
PYTEST_ARGS ?=
# Tests wait for clients, disks and other processes for more than half of their time.
JOBS ?= $(shell expr 2 \* `nproc 2>/dev/null || echo 2` + 1)
BENCH_ARGS ?=
SEED ?=
STEPS ?= 2000
SECONDS ?= 600
SEEDS ?=
MINUTES ?= 20
SOAK_ARGS ?=
TIMES ?= 10
PORT ?= 8000
DATE ?=
REHEARSE ?=
BASE ?=

# What pytest makes of a test when it first imports it takes longer than the import, and is kept. Before
# the first run two processes do it, half of the tests each; else every worker would do it for all.
HALVES := tests/unit "tests --ignore=tests/unit"
REWRITTEN := tests/__pycache__/conftest.*-pytest-*.pyc
test: export PYTHONDONTWRITEBYTECODE :=

# With COMPILE=1 `serve` and `bench` use the compiled wheel; with COMPILE=0 `wheel` is pure Python.
COMPILING := $(filter 1,$(COMPILE))
WHEEL := dist/.$(if $(filter 0,$(COMPILE)),pure,compiled)
RUNNING := $(if $(COMPILING),$(COMPILED),$(VENV))
RUNNING_BROKER := $(if $(COMPILING),$(COMPILED_BROKER),$(BROKER))

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help venv always demo pipeline-demo sql console browser etcd haproxy test test-compiled serve lint format map audit-mutants bench sim simulate clusters pages attack fuzz soak lock licences audit-dependencies sbom docs docs-serve changelog release image wheel build-compiled clean check-python

help: ## list the targets
	@echo "Daybook: a durable message broker. Targets:"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

check-python:
	@command -v "$(PYTHON)" >/dev/null || { \
	  echo "make: '$(PYTHON)' was not found; install Python 3.11 or newer, or name one: make PYTHON=/path/to/python3" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "make: '$(PYTHON)' is $$("$(PYTHON)" --version 2>&1), Daybook needs 3.11 or newer; name one: make PYTHON=/path/to/python3" >&2; exit 1; }
	@"$(PYTHON)" -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo "make: '$(PYTHON)' cannot make virtual environments; install its venv module (Debian, Ubuntu: apt install python3-venv)" >&2; exit 1; }

$(MADE) $(COMPILED_MADE) $(AUDIT_MADE): | check-python
	"$(PYTHON)" -m venv $(@D)
	@touch $@

$(BROKER): $(LOCKED) setup.py $(MADE)
	$(BIN)/python $(DEPENDENCIES) broker build
	DAYBOOK_COMPILE=0 $(BIN)/python $(PROJECT) --editable .
	@touch $@

$(DEMO): $(LOCKED) setup.py $(MADE)
	$(BIN)/python $(DEPENDENCIES) demo build
	DAYBOOK_COMPILE=0 $(BIN)/python $(PROJECT) --editable .
	@touch $(BROKER) $@

$(SQL): $(LOCKED) setup.py $(MADE)
	$(BIN)/python $(DEPENDENCIES) sql build
	DAYBOOK_COMPILE=0 $(BIN)/python $(PROJECT) --editable .
	@touch $(BROKER) $@

$(CONSOLE): $(LOCKED) setup.py $(MADE)
	$(BIN)/python $(DEPENDENCIES) console sql build
	DAYBOOK_COMPILE=0 $(BIN)/python $(PROJECT) --editable .
	@touch $(BROKER) $(SQL) $@

$(PIPELINE): $(LOCKED) setup.py $(MADE)
	$(BIN)/python $(DEPENDENCIES) demo plots spark build
	DAYBOOK_COMPILE=0 $(BIN)/python $(PROJECT) --editable .
	@touch $(BROKER) $(DEMO) $(SQL) $@

$(TEST): $(LOCKED) setup.py $(MADE)
	$(BIN)/python $(DEPENDENCIES) all test
	DAYBOOK_COMPILE=0 $(BIN)/python $(PROJECT) --editable .
	$(BIN)/python $(COMPILE_ALL) $(VENV)/lib || true
	@touch $(BROKER) $(CONSOLE) $(DEMO) $(SQL) $(PIPELINE) $(DOCS) $@

# mypy reads the types of what the tests import.
$(LINT): $(TEST)
	$(BIN)/python $(DEPENDENCIES) lint
	@touch $@

$(FUZZ): $(TEST)
	$(BIN)/python $(DEPENDENCIES) fuzz
	@touch $@

$(RELEASE): $(TEST)
	$(BIN)/python $(DEPENDENCIES) release
	@touch $@

# The site needs no broker.
$(DOCS): $(LOCKED) $(MADE)
	$(BIN)/python $(DEPENDENCIES) docs
	@touch $@

# Continuous integration makes it while tests run, whose environment must stay as it is.
$(AUDIT): $(LOCKED) $(AUDIT_MADE)
	$(AUDIT_VENV)/bin/python $(DEPENDENCIES) audit
	@touch $@

# A source that is gone changes no time stamp but this list.
dist/.sources: always
	@mkdir -p $(@D)
	@echo '$(SOURCES)' | cmp -s - $@ || echo '$(SOURCES)' > $@

# Manual pages and completions, made from the commands themselves. They are part of a wheel.
share/.made: $(SOURCES) dist/.sources | $(BROKER)
	@mkdir -p $(@D)
	$(BIN)/python $(DEPENDENCIES) manuals
	$(BIN)/python -m release.manuals share
	@touch $@

# The compiler reads the types of what the modules import, so the dependencies have to be there.
dist/.compiled dist/.pure: $(SOURCES) dist/.sources share/.made | $(BROKER)
	rm -rf build dist/*.whl dist/.compiled dist/.pure
	$(if $(filter %/.pure,$@),,$(BIN)/python $(DEPENDENCIES) compile)
	DAYBOOK_COMPILE=$(if $(filter %/.pure,$@),0,1) $(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
	rm -rf build
	@touch $@

# The version stays the same from build to build, so pip must be made to replace it.
$(COMPILED_BROKER): dist/.compiled $(LOCKED) $(COMPILED_MADE)
	$(COMPILED)/bin/python $(DEPENDENCIES) broker
	$(COMPILED)/bin/python $(INSTALL) --no-deps --force-reinstall dist/*.whl
	@touch $@

$(COMPILED_TEST): $(LOCKED) $(COMPILED_BROKER)
	$(COMPILED)/bin/python $(DEPENDENCIES) all test
	$(COMPILED)/bin/python $(COMPILE_ALL) $(COMPILED)/lib || true
	@touch $@

venv: $(LINT) ## make the virtual environment .venv with everything below

demo: $(DEMO) ## kill a broker twice under load and prove that nothing was lost
	$(BIN)/python -P -m daybook.tools.demos.demo $(ARGS)

sql: $(SQL) ## install what `journal sql` and the jobs of `daybook pipeline` need

pipeline-demo: $(PIPELINE) ## ask the history of a broker that was killed with SQL, jobs and Spark
	$(BIN)/python -P -m daybook.tools.demos.pipeline_demo $(ARGS)

serve: $(RUNNING_BROKER) ## run a broker (ARGS="--data DIR --listen stomp://127.0.0.1:61613"; COMPILE=1 for the compiled build)
	$(RUNNING)/bin/daybook serve $(ARGS)

# Tests start brokers hundreds of times. Where PYTHONDONTWRITEBYTECODE is set, as in many containers,
# each of them would compile every module again.
console: $(CONSOLE) ## show the broker in a browser, beside `make serve` (ARGS="--data DIR --listen http://127.0.0.1:8162")
	$(BIN)/daybook console $(ARGS)

# Tests drive these, and are skipped where they are missing.
APT := [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && export DEBIAN_FRONTEND=noninteractive && \
  timeout 300 sh -c 'apt-get -qq update && apt-get -qq install --no-install-recommends "$$0"'

browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || { $(APT) chromium >/dev/null 2>&1; } || \
	  echo "make: Chromium is missing, so the console is not tried in a browser; install it (Debian: apt install chromium)" >&2

etcd:
	@command -v etcd >/dev/null || { $(APT) etcd-server >/dev/null 2>&1; } || \
	  echo "make: etcd is missing, so standbys are not tried with it; install it (Debian: apt install etcd-server)" >&2
	@command -v etcdctl >/dev/null || { $(APT) etcd-client >/dev/null 2>&1; } || \
	  echo "make: etcdctl is missing, so no member of etcd is replaced; install it (Debian: apt install etcd-client)" >&2

haproxy:
	@test -x /usr/sbin/haproxy || command -v haproxy >/dev/null || { $(APT) haproxy >/dev/null 2>&1; } || \
	  echo "make: HAProxy is missing, so no load balancer is tried; install it (Debian: apt install haproxy)" >&2

test: $(TEST) browser etcd haproxy ## run the test suite, two files for each processor and one more at a time, or JOBS=n (PYTEST_ARGS="-k name -x")
	$(BIN)/python $(COMPILE_ALL) $(ROOMS) bench release tests
	@ls $(REWRITTEN) >/dev/null 2>&1 || { for part in $(HALVES); do \
	  $(BIN)/python -m pytest --collect-only -qq -n 0 $$part >/dev/null 2>&1 & done; wait; }
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder --max-worker-restart 2 $(PYTEST_ARGS)

test-compiled: $(COMPILED_TEST) ## run the tests of the rooms against the compiled build
	$(COMPILED)/bin/python -m pytest -p no:cacheprovider $(PYTEST_ARGS) tests/unit tests/property

lint: $(LINT) ## check style, types, layers and spelling
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/codespell *.md docs etc $(ROOMS) bench release

format: $(LINT) ## format the sources
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

map: $(TEST) ## redraw what the pages take from the sources: the map of modules, events, columns
	$(BIN)/python -m tests.meta.drawn.rooms_map
	$(BIN)/python -m tests.meta.drawn.events_page
	$(BIN)/python -m tests.meta.drawn.schema_page
	$(BIN)/python -m tests.meta.drawn.errors_tree
	$(BIN)/python -m tests.meta.drawn.metrics_page
	$(BIN)/python -m tests.meta.drawn.pools_page
	$(BIN)/python -m tests.meta.drawn.requests_page
	$(BIN)/python -m tests.meta.drawn.states_page
	$(BIN)/python -m tests.meta.drawn.synonyms_page
	$(BIN)/python -m tests.meta.drawn.amqp_page
	$(BIN)/python -m tests.meta.drawn.audit_page
	$(BIN)/python -m tests.meta.drawn.verification_page

docs: $(DOCS) ## build the documentation as a site into build/site, and check its links
	$(BIN)/python -m release.site

docs-serve: docs ## show that site at http://127.0.0.1:8000 (PORT=n)
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory build/site $(PORT)

audit-mutants: $(TEST) ## forge real journals in every field of every event, and see what the audit finds
	$(BIN)/python -m tests.support.forging.forgeries
	$(BIN)/python -m tests.meta.drawn.audit_page

bench: $(TEST) $(if $(COMPILING),$(COMPILED_BROKER)) ## measure (COMPILE=1 for the compiled build; BENCH_ARGS="...")
	$(BIN)/python -m bench.run $(if $(COMPILING),--python $(abspath $(COMPILED)/bin/python)) $(BENCH_ARGS)

sim: $(TEST) ## simulate the whole broker with faults (SEED=n STEPS=m)
	$(BIN)/python -m tests.simulation.run $(if $(SEED),--seed $(SEED)) --steps $(STEPS)

simulate: $(TEST) ## simulate any features together on all cores, for MINUTES=n or SEEDS=n runs (SEED=first)
	$(BIN)/python -m tests.simulation.search --minutes $(MINUTES) $(if $(SEEDS),--seeds $(SEEDS)) $(if $(SEED),--seed $(SEED)) --steps $(STEPS)

clusters: $(TEST) etcd ## lose machines of clusters for hours: KILLS=n rounds of real ones, SEEDS=n simulated ones (SEED=first)
	$(BIN)/python -m tests.simulation.standbys.search --seeds $(or $(SEEDS),10000) $(if $(SEED),--seed $(SEED))
	DAYBOOK_KILLS=$(or $(KILLS),300) $(BIN)/python -m pytest $(PYTEST_ARGS) tests/crash/machines -k confirmed_is_lost

pages: $(TEST) browser ## look at every page of the console in Chromium, in every way, and at 100,000 queues and a million messages
	DAYBOOK_MANY=1 $(BIN)/python -m pytest $(PYTEST_ARGS) tests/interop/console/pages tests/interop/console/test_many.py

attack: $(TEST) ## attack brokers beside an honest client, longer than `make test` (TIMES=n)
	DAYBOOK_ATTACK=$(TIMES) $(BIN)/python -m pytest $(PYTEST_ARGS) tests/attack

fuzz: $(FUZZ) ## search for inputs that break a law, guided by coverage (SECONDS=n for each target, SEED=n)
	@set -e; for target in $(GUIDED); do \
	  echo "$(BIN)/python -m tests.fuzz.guided.search $$target"; \
	  $(BIN)/python -m tests.fuzz.guided.search $$target --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)); \
	done; for target in $(FUZZERS); do \
	  echo "$(BIN)/python -m $$target"; \
	  $(BIN)/python -m $$target --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)); \
	done

soak: $(TEST) ## use a broker in every way at once, and see that nothing grows (MINUTES=n SOAK_ARGS="--plot FILE.png")
	$(BIN)/python -m tests.soak.run --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(SOAK_ARGS)

lock: $(RELEASE) ## lock the newest version of every dependency, with hashes, in requirements.lock
	$(BIN)/python -m release.resolution
	$(MAKE) --no-print-directory licences

licences: $(RELEASE) $(FUZZ) $(AUDIT) ## redraw docs/licences.md from the packages of the lock
	$(BIN)/python -m release.licences $(AUDIT_VENV)/lib/python*/site-packages

audit-dependencies: $(AUDIT) ## ask whether the locked versions have known vulnerabilities (needs the network)
	$(AUDIT_VENV)/bin/python -m release.vulnerabilities

sbom: $(TEST) ## write the bill of materials of the broker and its extras into dist/ (CycloneDX)
	@mkdir -p dist
	$(BIN)/python -m release.components dist

changelog: $(TEST) ## make a section of what is unreleased in CHANGELOG.md (DATE=2026-11-26)
	$(BIN)/python -m release.changelog $(DATE)

release: $(RELEASE) audit-dependencies ## build what is published into dist/release: wheels, sources, manuals, sums (REHEARSE=1)
	$(BIN)/python -m release.artifacts $(if $(REHEARSE),--rehearse) dist/release

image: ## build the image of a release from a base with a digest (BASE=3.11-slim-bookworm@sha256:...)
	@python3 -m release.base "$(BASE)"
	docker build --build-arg PYTHON="$(BASE)" --tag daybook:$$(python3 -m release.base --version) .

wheel: $(WHEEL) ## build dist/*.whl with the hot modules compiled, if anything changed (COMPILE=0: pure Python)

build-compiled: $(COMPILED_BROKER) ## install the compiled broker into .venv-compiled

clean: ## remove what was built and measured, and the virtual environments
	rm -rf build dist share $(VENV) $(COMPILED) $(AUDIT_VENV) demo-data *.egg-info
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
