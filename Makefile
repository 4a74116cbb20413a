# Everything a person types at this project. `make` alone prints the list.
#
# The targets run inside .venv, which is created and brought up to date by itself: the stamp file
# below is older than pyproject.toml or requirements.lock when there is something to install.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

PYTHON ?= python3
PYTEST_ARGS ?=
SCENARIO_ARGS ?=
NIGHTLY_ARGS ?=
LOCK_ARGS ?=
FAULTS_ARGS ?=

# A slow network is no failure: more retries than pip's five, unless the machine says otherwise.
export PIP_RETRIES ?= 10
export PIP_DISABLE_PIP_VERSION_CHECK ?= 1
# Hundreds of programs are started here; each would compile all that it imports anew.
export PYTHONDONTWRITEBYTECODE :=

# What a package is built with comes from the lock too, with its hash: it is installed first, and used
# as it is. (A constraint with hashes is not enough: pip 23 refuses what a package itself asks for.)
BUILDER := sed -n '/^setuptools==/,/[^\\]$$/p' requirements.lock

VENV := .venv/bin/python
STAMP := .venv/.ready

# A stamp names the folder it was made in. In a moved or copied checkout it does not count.
ifneq ($(shell [ "$$(cat $(STAMP) 2>/dev/null)" = "$$(pwd -P)" ] && echo fresh),fresh)
STALE := stale
endif

.PHONY: help install nightly test in_order lint lint_now types types_now coverage collected collected_now unit spark scenarios once emulated bench cluster soak mutants explored faults fuzz pages pictures lock mosquitto clean stale

help: ## Show this list
	@echo "Usage: make <target>"
	@echo
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo "  PYTEST_ARGS='-k airtime'   handed to pytest by: test, unit, spark, fuzz"
	@echo "  SCENARIO_ARGS='--seed 7'   handed to lorabench run by: test, scenarios, once, emulated"
	@echo "  NIGHTLY_ARGS='--short'     handed to lorabench nightly by: nightly; with --soak, make soak follows"
	@echo "  LOCK_ARGS=--upgrade        handed to the maker of the lock by: lock"
	@echo "  FAULTS_ARGS='--seed 7'     handed to the planter of faults by: faults"
	@echo "  PYTHON=python3.12          the Python that .venv is made with (3.11 or newer)"

# A soak tells by itself whether it passed; the night is told first.
nightly: $(STAMP) ## Run all scenarios and real captures, score them, write the reports
	@code=0; $(VENV) -m bench nightly $(filter-out --soak,$(NIGHTLY_ARGS)) || code=$$?; \
	$(if $(filter --soak,$(NIGHTLY_ARGS)),$(MAKE) --no-print-directory soak || code=$$(($$code ? $$code : 1));) \
	exit $$code

# Two at a time, so that both processors have work; `scenarios` and `unit` use both by themselves.
# Beside the real wires, which wait much but need a host that is not late, only what takes one
# processor runs. `make -j2 test` is the same.
test: $(STAMP) mosquitto ## Check everything: ruff, mypy, tests with Spark, scenarios on both rigs
	@parts=$$(mktemp); trap 'rm -f "$$parts"' EXIT; begun=$$SECONDS; \
	$(MAKE) --no-print-directory PARTS_FILE="$$parts" $(if $(filter --jobserver%,$(MAKEFLAGS)),,-j2) in_order; \
	echo; awk '{ printf "  %-10s %4d s, %4d s alone   (budget %3d s)\n", $$1, $$2, $$3, $$4 }' "$$parts"; \
	echo "make test: everything passed in $$((SECONDS - begun)) s."

in_order: lint types coverage collected scenarios unit once spark
ifneq ($(filter in_order,$(MAKECMDGOALS)),)
scenarios: | lint types coverage collected
unit: | scenarios
once spark: | unit
ALREADY = $(if $(PYTEST_ARGS),,$(addprefix --ignore=,$(COVERING)))
ON_ONE := $(if $(shell command -v taskset),taskset -c $(shell taskset -cp $$$$ | sed 's/.*[-,: ]//'))
endif

install: $(STAMP) ## Create or update .venv, and nothing else
	@echo ".venv is ready: $$($(VENV) --version), $$($(VENV) -m pip list 2>/dev/null | tail -n +3 | wc -l | tr -d ' ') packages."

lint: $(STAMP) ## ruff over the whole tree: rules and format
	@$(VENV) .ci/part lint 15 $(MAKE) --no-print-directory lint_now

lint_now:
	@$(VENV) -m ruff check .
	@$(VENV) -m ruff format --check . || { echo "Format the files that are named by: .venv/bin/ruff format ." >&2; exit 1; }

types: $(STAMP) ## mypy --strict over lns, bench and the firmware scripts
	@$(VENV) .ci/part types 45 $(MAKE) --no-print-directory types_now

types_now:
	@$(VENV) -m mypy
	@MYPYPATH=firmware_scripts $(VENV) -m mypy --strict --explicit-package-bases firmware_scripts/*.py firmware_scripts/gateway/configure.py

# What decides about duplicates and verdicts, and the tests that belong to it.
COVERED := lns.lorawan lns.station
COVERED += $(addprefix lns.dedup.,claim concentrator session strategy)
COVERED += bench.verdict
COVERING := tests/lns/lorawan tests/lns/station tests/lns/dedup tests/lns/dedup/test_lives.py
COVERING += tests/bench/verdict tests/bench/inspection

coverage: $(STAMP) ## Every branch of what decides about duplicates and verdicts is taken by a test
	@$(VENV) .ci/part coverage 60 $(VENV) -m pytest $(COVERING) -q $(addprefix --cov=,$(COVERED)) --cov-branch \
	    --cov-report=term-missing --cov-fail-under=100

collected: $(STAMP) ## Import every test once, so that its bytecode is there for all workers
	@$(VENV) .ci/part collected 40 $(MAKE) --no-print-directory collected_now

collected_now:
	@told=$$($(VENV) -m pytest tests -m "" -n 0 --collect-only -qq) || { echo "$$told"; exit 1; }

# Every test that asks tests/sizes.py.
SOAKS = $(shell grep -rlE '^from tests(\.sizes import|.* import .*sizes)' tests --include=test_*.py --include=conftest.py | sed 's:/conftest.py::')

# 5: PYTEST_ARGS choose none of these.
OR_NOT_CHOSEN = $(if $(PYTEST_ARGS),|| { code=$$?; [ $$code = 5 ] || exit $$code; })

unit: $(STAMP) mosquitto ## Tests of lns and bench without Spark, several at once
	@$(VENV) .ci/part unit 240 $(VENV) -m pytest tests -m "not spark" -n 5 --dist loadfile -q $(ALREADY) $(PYTEST_ARGS) $(OR_NOT_CHOSEN)

spark: $(STAMP) ## Tests of the score, which start Spark
	@$(VENV) .ci/part spark 90 $(ON_ONE) $(VENV) -m pytest tests -m spark -q $(PYTEST_ARGS) $(OR_NOT_CHOSEN)

scenarios: $(STAMP) ## Every scenario on the simulated rig
	@$(VENV) .ci/part scenarios 40 $(VENV) -m bench run --rig simulated $(SCENARIO_ARGS)

# 10: a repeated stimulus; this machine may have been too busy for the first one.
ON_WIRES = $(VENV) -m bench run --rig emulated $(SCENARIO_ARGS)
OR_REPEATED = || { code=$$?; [ $$code = 10 ] || exit $$code; }

once: $(STAMP) mosquitto ## Every scenario once on real wires: ptys, WebSockets, processes, broker, store
	@$(VENV) .ci/part once 150 $(ON_WIRES) --each-once $(OR_REPEATED)

emulated: $(STAMP) mosquitto ## Every scenario on real wires, with every strategy and kind of uplink
	@$(VENV) .ci/part emulated 600 $(ON_WIRES) $(OR_REPEATED)

bench: $(STAMP) mosquitto ## Measure the hot paths with fixed seeds; the median of five; then Spark beside DuckDB
	@$(VENV) -m tests.benchmarks
	@$(VENV) -m tests.benchmarks.scoring --rows 1000000,10000000,50000000

cluster: $(STAMP) ## Score on a cluster of Spark that loses an executor
	@$(VENV) -m pytest tests/bench/score/lost_executor.py -q $(PYTEST_ARGS)

soak: $(STAMP) mosquitto ## The tests that have a size, in full: kills, whole archives, long searches
	@LORABENCH_SOAK=1 $(VENV) -m pytest $(SOAKS) -m "" -n 2 --dist loadfile -q --timeout 7200 $(PYTEST_ARGS)

mutants: $(STAMP) ## Break one line at a time; the tests must notice each
	@$(VENV) -m tests.mutants

explored: $(STAMP) ## Break one line at a time; random histories alone must find each
	@$(VENV) -m tests.mutants.explored

faults: $(STAMP) ## Break every function of lns in turn; scenarios must blame the right one
	@$(VENV) -m tests.mutants.generated $(FAULTS_ARGS)

fuzz: $(STAMP) ## Look for new counterexamples with the property tests, for longer
	@HYPOTHESIS_PROFILE=fuzz $(VENV) -m pytest tests/fuzz tests -m "hypothesis and not spark" -q --timeout 1800 $(PYTEST_ARGS)

pages: $(STAMP) ## Write the tables of the reference pages anew, from the code
	@$(VENV) -m tests.pages

pictures: $(STAMP) ## Draw the pictures of README anew, with Chromium
	@$(VENV) -m tests.pictures

lock: $(STAMP) ## Write requirements.lock anew from pyproject.toml, with the hashes of all files
	@$(VENV) -m pip install --quiet --upgrade uv
	@$(VENV) .ci/lock.py $(LOCK_ARGS)
	@echo "requirements.lock names $$(grep -c == requirements.lock) packages; the next make installs them."

mosquitto: ## Install the MQTT broker that tests start, where it is missing
	@tests/install_mosquitto.sh

clean: ## Remove .venv, caches and build output; runs/ and lake/ stay
	@rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage htmlcov build dist *.egg-info
	@find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
	@echo "Removed .venv, caches and build output. Captures (runs/) and the lake stay: delete them by hand."

$(STAMP): pyproject.toml requirements.lock $(STALE)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	    echo "This project needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>/dev/null || echo not there)." >&2; \
	    echo "Install one, then say which: make PYTHON=python3.12 $(or $(MAKECMDGOALS),install)" >&2; \
	    exit 4; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	    echo "'$(PYTHON)' cannot create virtual environments: its venv module is missing." >&2; \
	    echo "On Debian and Ubuntu: sudo apt-get install python3-venv" >&2; \
	    exit 4; }
	@$(VENV) -c 'import sys, pip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	    echo "Creating .venv with $$($(PYTHON) --version) ..."; \
	    $(PYTHON) -m venv --clear .venv; }
	@echo "Installing $$(grep -c == requirements.lock) packages into .venv (about 1.1 GB, most of it Spark and Java;"
	@echo "the first time this takes one to ten minutes, later changes take seconds) ..."
	@for attempt in 1 2 3; do \
	    $(BUILDER) > .venv/builder.txt && \
	    $(VENV) -m pip install --quiet --require-hashes -r .venv/builder.txt && \
	    $(VENV) -m pip install --require-hashes --no-deps --no-build-isolation -r requirements.lock \
	        | awk '/^(Collecting|Processing)/ { sub(".*/", "", $$2); if (split($$2, part, "-") > 1 && $$2 !~ /==/) \
                   $$2 = part[1] "==" part[2]; gsub("_", "-", $$2); sub("\\.tar\\.gz", "", $$2); printf "  %3d  %s\n", ++n, $$2; fflush() } \
               /^Installing collected/ { print "       unpacking ..."; fflush() }' \
	        && break; \
	    if [ $$attempt = 3 ]; then \
	        echo "The installation failed three times; the reason stands above." >&2; \
	        echo "If it is the network, run the same make target again: what was downloaded is kept." >&2; \
	        exit 12; \
	    fi; \
	    echo "That did not work; trying again (attempt $$((attempt + 1)) of 3) ..." >&2; \
	done
	@$(VENV) -m pip install --quiet --no-deps --no-build-isolation --editable .
	@$(VENV) -m pip check || { \
	    echo "Packages in .venv do not fit each other (above). If you have changed pyproject.toml: make lock." >&2; \
	    echo "If you have installed something there by hand: make clean, then the same target again." >&2; \
	    exit 12; }
	@pwd -P > $(STAMP)
	@echo ".venv is ready."

stale:
