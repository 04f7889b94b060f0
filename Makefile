# The verbs of the project. Each does its own set-up; `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help setup demo test bench check docs clean

help:  ## list the verbs
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(STAMP)  ## make the virtual environment with everything in it

$(STAMP): pyproject.toml setup.py requirements-test.txt $(wildcard src/barograph/*.c src/barograph/measures/*.c src/barograph/measures/*.h)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --requirement requirements-test.txt
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

demo: $(STAMP)  ## train a small network twice, healthy and with a planted fault, and see what is found
	$(BIN)/python examples/demo.py

test: $(STAMP)  ## run every test
	$(BIN)/python -m pytest

bench: $(STAMP)  ## measure costs beside the field; prints ratios (see benchmarks/README.md)
	$(BIN)/python benchmarks/run.py

check: $(STAMP)  ## lint, types, import floors, documents
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/test_docs.py tests/test_floors.py

docs: $(STAMP)  ## make the pages that are made from the code (one a rule)
	$(BIN)/python -m barograph.rules.pages docs/rules

clean:  ## remove what the verbs made
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache build src/*.egg-info
