# The same targets serve a newcomer and CI. `make help` lists them.
SHELL := /bin/sh
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: help setup demo test check format bench bench-admission lock clean
.DEFAULT_GOAL := help

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 18

setup: $(STAMP) ## make .venv with the pinned dependencies

# Exact versions with hashes come from constraints.txt; uv where it is, else venv and pip.
$(STAMP): constraints.txt pyproject.toml
	@if command -v uv >/dev/null 2>&1; then \
		uv venv --quiet --allow-existing --python "$(PYTHON)" $(VENV) && \
		uv pip install --quiet --python $(BIN)/python --require-hashes -r constraints.txt && \
		uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e . ; \
	else \
		$(PYTHON) -m venv $(VENV) && \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r constraints.txt && \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . ; \
	fi
	@touch $@

demo: setup ## the main job on this machine, against the built-in simulator
	$(BIN)/eagle3gen demo

test: setup ## every test
	$(BIN)/python -m pytest -n 2 --dist worksteal

check: setup ## ruff, mypy, import-linter, house rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/unit/test_tidy.py

format: setup ## let ruff write the layout
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup ## one worker against a bare client, in one run
	$(BIN)/python -m benchmarks.worker

bench-admission: setup ## whole runs under a cap, in simulated time
	$(BIN)/python -m benchmarks.admission

lock: ## renew constraints.txt (needs uv)
	uv pip compile --universal --generate-hashes --no-emit-index-url --quiet --group dev pyproject.toml -o constraints.txt --custom-compile-command "make lock"

clean: ## remove the environment and what runs leave behind
	rm -rf $(VENV) .eagle3gen demo-out dist build
