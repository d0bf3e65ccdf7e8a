PYTHON ?= python3
BIN := .venv/bin
CONSTRAINTS := constraints.txt
PIP := -m pip install --quiet --disable-pip-version-check --constraint $(CONSTRAINTS)

.PHONY: help install demo test test-all test-browser soak bench clean

help:  ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: .venv/installed  ## create the environment with owlfi in it

demo: .venv/installed  ## fit a simulator to exchange rates, with a table and a picture
	$(BIN)/owlfi demo

test: .venv/developer  ## lint, types and tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -n 2 --dist worksteal --durations=10

test-all: .venv/developer  ## the same with the slow statistical checks
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -n 2 --dist worksteal --durations=10 -m 'not browser'

test-browser: .venv/developer  ## reports in a real browser: needs chromium and chromium-driver
	$(BIN)/python $(PIP) selenium
	$(BIN)/pytest -n 0 -m browser tests/show

soak: .venv/developer  ## half an hour of kills: campaigns lose and repeat nothing
	$(BIN)/python tests/soak.py --minutes 30 --report docs/soak.md

bench: .venv-bench/installed  ## speed against peers, written to benchmarks/RESULTS.md
	.venv-bench/bin/python -m benchmarks

clean:  ## remove the environments and what was written
	rm -rf .venv .venv-bench out

.venv/installed: pyproject.toml $(CONSTRAINTS)
	$(PYTHON) -m venv .venv
	$(BIN)/python $(PIP) --editable .
	touch $@

.venv/developer: .venv/installed
	$(BIN)/python $(PIP) --editable '.[dev]'
	touch $@

.venv-bench/installed: pyproject.toml $(CONSTRAINTS) benchmarks/requirements.txt
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python $(PIP) --requirement benchmarks/requirements.txt --editable .
	touch $@
