# Two commands do everything on a machine that has Python 3.11 or newer: `make run` and `make test`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
JOBS := $(shell nproc 2>/dev/null || echo 1)

.PHONY: run test coverage lint bench compare soak docs pictures clean

run: $(STAMP)  ## every built-in scenario for half a minute
	$(BIN)/tornlog run --jobs $(JOBS) --time 30s --out out

TESTS := $(BIN)/pytest --numprocesses $(JOBS) --dist loadfile -r s

test: coverage  ## the tests, on all cores
	$(TESTS) --ignore=tests/store --ignore=tests/faults --durations=15

coverage: $(STAMP)  ## those of store/ and faults/, with the line coverage of both
	$(TESTS) tests/store tests/faults --cov --cov-report=term --cov-fail-under=90

lint: $(STAMP)  ## style, then types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy -p tornlog

bench: $(STAMP)  ## what one second buys on this machine
	$(BIN)/tornlog bench

compare: $(STAMP)  ## every check against the real store, which Maven fetches: 480 directories of each side
	$(BIN)/tornlog compare --against rocketmq-4.9.8 --seeds 480 --jobs $(JOBS) --out out

soak: $(STAMP)  ## a broker among hostile clients for ten minutes
	$(BIN)/tornlog soak --time 10m

docs: $(STAMP)  ## the site, in build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

LOST := rollover-at-a-crash-dur-record

pictures: $(STAMP)  ## the pictures in the README; the second needs Chromium
	$(BIN)/tornlog plot latency --out out
	-$(BIN)/tornlog run rollover-at-a-crash --mutant no-dir-fsync-on-rollover --seeds 50 --out out
	-$(BIN)/tornlog replay --original out/failures/$(LOST).json --timeline out/lost.html
	cp out/latency.png docs/pictures/latency.png
	$(BIN)/python docs/site/screenshot.py out/lost.html docs/pictures/timeline.png

$(STAMP): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("tornlog needs Python 3.11 or newer; run make PYTHON=python3.11") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) build dist out *.egg-info .coverage .mypy_cache .pytest_cache .ruff_cache .hypothesis
