# Everything lives in one virtual environment, made on the first call and only mended when pyproject.toml or constraints.txt change.
PYTHON ?= python3
VENV ?= .venv
ARGS ?= dataset=spiral method=kdf
MARKED ?= not slow
SCALE ?= workstation

BIN := $(VENV)/bin
PIP = $(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check --constraint constraints.txt
INSTALL = $(PIP) --use-pep517 --no-compile
# pip compiles on one core, what nobody imports too: half of its time.
COMPILE = $(BIN)/python -m compileall -q -q -j 0 -x '/(tests|transformers/models)/' \
	$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') || true

# Two processes with one thread each: on two cores the threads of BLAS would wait for each other.
TWICE = OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: run test slow installs bench docs notebooks readmes reproduce-paper lint format clean help
.PHONY: own-venv

run: $(VENV)/.run  ## install, then kdg run dataset=spiral method=kdf (or ARGS=…)
	@$(BIN)/kdg run $(ARGS)

test: lint  ## install, check style and types, run the quick tests
	@$(TWICE) -m '$(MARKED)'

slow: $(VENV)/.dev  ## run the slow tests: variations, killed processes, clusters, browsers
	@$(TWICE) -m slow tests

installs:  ## try the library alone, the wheel, and the lowest and newest requirements
	@$(PYTHON) scripts/check_installs.py library wheel floors newest

bench: $(VENV)/.dev  ## time methods, algorithms and commands beside their bars (hours; minutes with BENCH=--quick)
	@$(BIN)/python scripts/bench $(BENCH)

docs: $(VENV)/.dev  ## build the site of docs/ in site/; needs no network
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "site/index.html"

notebooks: $(VENV)/.dev  ## execute docs/notebooks and store what they print and draw (4 minutes)
	@$(BIN)/python scripts/run_notebooks.py

readmes: $(VENV)/.run  ## write the tables of experiments/*/README.md from stored records
	@$(BIN)/python -m experiments.reproduction.readme

reproduce-paper: $(VENV)/.run  ## published beside measured numbers (SCALE=smoke for minutes)
	@$(BIN)/kdg reproduce --scale $(SCALE)

lint: $(VENV)/.dev  ## check style, types and docstrings
	@$(BIN)/ruff check --quiet --output-format concise
	@$(BIN)/ruff format --quiet --check --output-format concise || { echo "not formatted as above; make format does it" >&2; exit 1; }
	@$(BIN)/pyright --pythonpath $(BIN)/python
	@$(BIN)/python scripts/check_docstrings.py

format: $(VENV)/.dev  ## sort imports, mend what ruff can mend, format
	@$(BIN)/ruff check --fix-only --quiet
	@$(BIN)/ruff format

clean: own-venv  ## remove the environment and build leftovers; outputs/ stays
	@rm -rf $(VENV) dist build site .pytest_cache .ruff_cache .hypothesis
	@find conf kdgraph scripts tests -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

help:  ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-15s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

# The pip that comes with Python 3.11 takes half as long again to install what follows; it does where the other is not to be had.
$(VENV)/.created: | constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	|| { echo "kdgraph needs Python 3.11 or newer; $(PYTHON) is $$(command -v $(PYTHON) >/dev/null && $(PYTHON) --version 2>&1 || echo not there); name another: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) --upgrade pip 2>/dev/null || true
	@touch $@

# An install from a checkout that is gone, or was moved, is repeated.
$(shell [ ! -d $(VENV) ] || $(PYTHON) scripts/check_venv.py $(VENV) forget-gone 2>/dev/null)

# Two checkouts cannot share an environment: the second install would take the place of the first.
own-venv:
	@if [ -d $(VENV) ] && command -v $(PYTHON) >/dev/null; then \
	$(PYTHON) scripts/check_venv.py $(VENV) $(or $(firstword $(MAKECMDGOALS)),run); fi

# The dev install is a run install too, so it sets both stamps.
$(VENV)/.run: pyproject.toml constraints.txt | own-venv $(VENV)/.created
	@echo "installing kdgraph into $(VENV) (once; about a minute)"
	@$(INSTALL) --editable '.[torch]'
	@$(COMPILE)
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | own-venv $(VENV)/.created
	@echo "installing kdgraph and what its tests need into $(VENV) (once; about a minute)"
	@$(INSTALL) --editable '.[dev,peers]'
	@$(COMPILE)
	@touch $(VENV)/.run $@
