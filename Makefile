# Needs python3 (3.11 or newer) and make. Every target sets up what it needs: .venv, from constraints.txt.
# Another interpreter: make PYTHON=python3.12 test

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
EXTRAS := test,dev,demo,bench,classifiers,cli,dashboard,paper

export PIP_NO_INPUT := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# One thread a process: the matrices are small, and two processes fill two cores.
TEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 $(BIN)/python -m pytest

# Benchmarks run one thread a process: seeds side by side are worth more than a faster matrix product.
BENCH   := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 $(BIN)/boggn bench
METHODS := boggn,boggn-paper,boggn:classifier=forest,acquisition=pi,tpe,gp,cmaes,random,smac,bore-xgboost
SLOW    := bore,ax,hebo

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-12s %s\n", $$1, $$2 }'

.PHONY: setup
setup: $(STAMP) ## create .venv with the exact versions of constraints.txt

# The build backend comes from constraints.txt too, so the build is not isolated: an isolated one would take the newest.
$(STAMP): constraints.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "boggn needs Python 3.11 or newer; this is " + sys.version)'
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt hatchling editables
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --no-build-isolation --editable '.[$(EXTRAS)]'
	@touch $@

.PHONY: demo
demo: $(STAMP) ## tune a small network on the digits data, compare with random search, report: about two minutes
	$(BIN)/boggn run examples/digits/study.toml
	$(BIN)/python examples/digits/compare.py
	@printf '\n%s\n\n' 'Why the recommended trial was suggested, and all there is to see of the study:'
	@$(BIN)/boggn explain examples/digits/study.toml
	@$(BIN)/boggn report examples/digits/study.toml --out demo.html

.PHONY: test
test: lint $(STAMP) ## everything that must pass: lint, types, layers, tests, docs
	$(TEST) --numprocesses 2 --dist worksteal

.PHONY: test-fast
test-fast: $(STAMP) ## the tests that take no more than a few seconds each
	$(TEST) -x -m 'not benchmark and not slow'

.PHONY: lint
lint: $(STAMP) ## ruff, mypy and import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

.PHONY: format
format: $(STAMP) ## let ruff put right what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: docs
docs: $(STAMP) ## check the links of the documentation and run its snippets (part of make test)
	$(TEST) tests/test_docs.py

.PHONY: bench-quick
bench-quick: $(STAMP) ## a few seeds of a few problems: minutes
	$(BENCH) run --tasks paper --methods boggn,tpe,random --seeds 3 --evals 50 --out bench-quick.jsonl --jobs 2
	$(BENCH) report bench-quick.jsonl --reference tpe --at 25,50
	$(BENCH) scale --methods boggn,tpe --told 100

.PHONY: bench
bench: $(STAMP) peers ## boggn and its peers, 20 seeds, the slow ones 3: hours; resumes
	$(BIN)/python -m pip install --quiet torch==2.13.0  # for GPSampler alone
	$(BENCH) run --tasks paper,noise --methods $(METHODS) --seeds 20 --evals 100,hartmann6=30 --out bench.jsonl --jobs 2
	$(BENCH) run --tasks paper,noise --methods $(SLOW) --seeds 3 --evals 100,hartmann6=30 --out bench.jsonl --jobs 2
	$(BENCH) report bench.jsonl --reference boggn --methods $(METHODS) --html bench.html
	$(BENCH) report bench.jsonl --reference boggn
	$(BENCH) scale --methods boggn,boggn-paper,tpe,gp,random --told 100,1000
	$(TEST) -m benchmark -s

PEERS        := $(notdir $(basename $(wildcard src/boggn/bench/peers/requirements/*.txt)))
PEER_FOLDER  := .venv-peers

.PHONY: peers
peers: $(PEERS:%=$(PEER_FOLDER)/%/.installed) ## the optimisers that boggn is compared with, each in .venv-peers/<name>

# torch comes first and by itself: as the requirement of another package it would bring gigabytes of CUDA where a build
# without it is offered.
$(PEER_FOLDER)/%/.installed: src/boggn/bench/peers/requirements/%.txt
	$(PYTHON) -m venv --clear $(PEER_FOLDER)/$*
	sed -n '/^torch==/p' $< > $(PEER_FOLDER)/$*/torch.txt
	$(PEER_FOLDER)/$*/bin/python -m pip install --quiet --requirement $(PEER_FOLDER)/$*/torch.txt
	$(PEER_FOLDER)/$*/bin/python -m pip install --quiet --requirement $<
	@touch $@

.PHONY: constraints
constraints: ## write constraints.txt anew from the newest versions
	rm -rf .venv-constraints
	$(PYTHON) -m venv .venv-constraints
	.venv-constraints/bin/python -m pip install --quiet hatchling editables
	.venv-constraints/bin/python -m pip install --quiet --no-build-isolation '.[$(EXTRAS)]'
	{ head -n 1 constraints.txt; .venv-constraints/bin/python -m pip list --format=freeze \
		| grep -viE '^(boggn|pip|setuptools|wheel)=='; } > constraints.new
	mv constraints.new constraints.txt
	rm -rf .venv-constraints

.PHONY: clean
clean: ## remove .venv, caches and the demo's study
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache demo.html \
		examples/digits/*.trials examples/digits/*.db examples/digits/*.journal*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
