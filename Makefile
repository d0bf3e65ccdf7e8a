PYTHON ?= python3
BIN := .venv/bin
CONSTRAINTS := constraints.txt
PIP := -m pip install --quiet --disable-pip-version-check --constraint $(CONSTRAINTS)

.PHONY: help install demo test test-all test-browser docs docs-serve soak bench compare clean

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

test-browser: .venv/developer docs  ## reports and this site in a real browser: needs chromium and chromium-driver
	$(BIN)/python $(PIP) selenium
	$(BIN)/pytest -n 0 -m browser tests/show

docs: .venv-docs/installed  ## the documentation site, in docs/_build/html: pages run, links are checked
	PATH=$(CURDIR)/.venv-docs/bin:$$PATH .venv-docs/bin/sphinx-build -W --keep-going -j 2 -q docs docs/_build/html
	.venv-docs/bin/python docs/check_links.py docs/_build/html

docs-serve: docs  ## the same, to look at on http://localhost:8000
	.venv-docs/bin/python -m http.server --directory docs/_build/html 8000

soak: .venv/developer  ## half an hour of kills: campaigns lose and repeat nothing
	$(BIN)/python tests/soak.py --minutes 30 --report docs/soak.md

bench: .venv-bench/installed  ## speed against peers, written to benchmarks/RESULTS.md
	.venv-bench/bin/python -m benchmarks

compare: .venv-compare/installed  ## three hours: accuracy beside sbi, pyABC and ELFI, to benchmarks/COMPARE.md; QUICK=1 for ten minutes
	.venv-compare/bin/python -m benchmarks.compare $(if $(QUICK),--quick)

clean:  ## remove the environments and what was written
	rm -rf .venv .venv-bench .venv-compare .venv-docs docs/_build out

.venv/installed: pyproject.toml $(CONSTRAINTS)
	$(PYTHON) -m venv .venv
	$(BIN)/python $(PIP) --editable .
	touch $@

.venv/developer: .venv/installed
	$(BIN)/python $(PIP) --editable '.[dev]'
	touch $@

.venv-docs/installed: pyproject.toml $(CONSTRAINTS)
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/python $(PIP) --editable '.[docs]'
	touch $@

.venv-bench/installed: pyproject.toml $(CONSTRAINTS) benchmarks/requirements.txt
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python $(PIP) --requirement benchmarks/requirements.txt --editable .
	touch $@

# Whatever does not install is said on the page; ELFI asks for an older matplotlib than owlfi.
.venv-compare/installed: pyproject.toml $(CONSTRAINTS) benchmarks/compare/requirements.txt benchmarks/compare/elfi.txt
	$(PYTHON) -m venv .venv-compare
	.venv-compare/bin/python $(PIP) --editable .
	-.venv-compare/bin/python $(PIP) --requirement benchmarks/compare/requirements.txt
	-.venv-compare/bin/python $(PIP) --no-deps --requirement benchmarks/compare/elfi.txt
	touch $@
