# `make` lists the targets.

# Variables: the interpreter that makes the environment, the environment's folder, what to test.
PYTHON ?= python3
VENV ?= .venv
TESTS ?= tests

# Commands run inside the environment, whether or not a person has activated it.
IN = . "$(VENV)/bin/activate" &&

.DEFAULT_GOAL := help
.PHONY: help setup quickstart test check format bench docs lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

setup: ## make .venv from the lock, if it is missing, unfinished or of another lock
	@command -v "$(PYTHON)" >/dev/null || { echo "no $(PYTHON) here: install Python 3.11 or newer, or name one: make setup PYTHON=/path/to/it" >&2; exit 1; }
	@"$(PYTHON)" envs/install.py "$(VENV)"

quickstart: setup ## from raw text to results/experiments/quickstart/report.html
	@$(IN) snakemake --profile profiles/local
	@$(IN) smelt figures quickstart

test: setup ## the whole suite; TESTS="tests/corpus -k dump" for a part of it
	@$(IN) pytest $(TESTS)

check: setup ## lint: ruff, snakefmt, mypy on the spine, import-linter on the layers; generated files in step
	@$(IN) failed=; \
	for linter in "ruff check ." "ruff format --check --output-format concise ." "snakefmt --check Snakefile workflow" mypy lint-imports "smelt docs --check"; do \
	    echo "-- $$linter"; $$linter || failed="$$failed, $$linter"; \
	done; \
	[ -z "$$failed" ] || { echo "make check: problems found by $${failed#, }" >&2; exit 1; }

format: setup ## write the format that check asks for
	@$(IN) ruff check --fix .
	@$(IN) ruff format .
	@$(IN) snakefmt Snakefile workflow

bench: setup ## side-by-side benchmarks; records go to benchmarks/results/
	@$(IN) for each in $$(grep -l __main__ benchmarks/*.py); do python "$$each" || exit 1; done

docs: setup ## write what is generated from the settings: schema, reference page, annotated default
	@$(IN) smelt docs

lock: ## make the lock anew from envs/requirements.in; UPGRADE=1 takes the newest of everything
	@"$(PYTHON)" envs/lock.py $(if $(UPGRADE),--upgrade)

clean: ## remove results/ and .snakemake/, after asking; YES=1 does not ask
	@sh envs/clean.sh $(if $(YES),--yes)
