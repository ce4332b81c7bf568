# Two commands do everything on a machine that has Python 3.11 or newer: `make run` and `make test`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Tests start hundreds of processes of tornlog; each would compile its modules again without their cached bytecode.
unexport PYTHONDONTWRITEBYTECODE
JOBS := $(shell nproc 2>/dev/null || echo 1)
# `run` needs the package alone, all other targets need the developers' tools too, which include the package.
CORE := $(VENV)/.core
DEV := $(VENV)/.dev
BUILT_FROM := pyproject.toml setup.py $(wildcard store/formats/native/*.[ch] faults/probe/tracing/native/*.[ch])

.PHONY: run check test test-modules test-slow lowest coverage lint sanitize bench peers mutation conditions compare gallery gallery-confirm gallery-real gallery-page calibrate conformance soak dist release docs pictures hooks clean

TIME := 30s

run: $(CORE)  ## every built-in scenario for half a minute, or as in `make run TIME=10m`
	$(BIN)/tornlog run --jobs $(JOBS) --time $(TIME) --first-seed 0 --out out

# Tests run in a new random order each time; `make test ORDER=N` repeats one.
ORDER := $(shell date +%s)
# Many tests wait for processes and sockets: two workers on two cores use two thirds of the processors.
WORKERS := $(shell expr $(JOBS) + $(JOBS) / 2)
TESTS := $(BIN)/pytest --numprocesses $(WORKERS) --dist loadfile -r fEs --randomly-seed=$(ORDER)
# Tests of 2 s or more, or with a browser, Java or the real store, are left to .ci/run: `make test TIER="not slow"`.
TIER := not slow and not ci
QUICK := tests/packaging/test_imports.py tests/packaging/test_vocabulary.py tests/sim tests/faults tests/store/formats \
	tests/store/log tests/store/queues $(wildcard tests/store/test_golden_*.py)

check: $(DEV) lint  ## before a change is shown: style, types, the quick tests, 5 seeds of each scenario
	$(TESTS) -m "$(TIER)" $(QUICK)
	$(BIN)/tornlog run --jobs $(JOBS) --seeds 5

# A recorder once did not end, on a loaded machine. A cause was fixed since; it may have been another one.
test: $(DEV)  ## all tests except those of CI and the slow ones, on all cores
	$(TESTS) -m "$(TIER)" --reruns 2 --only-rerun "the recorder has not ended within" --durations=15

test-modules: $(DEV)  ## the tests collected once: pytest keeps the compiled modules, so no worker compiles them again
	$(BIN)/pytest --collect-only -qq tests >/dev/null

test-slow: $(DEV)  ## the slow tests: Spark clusters, comparison with the real store, pages run command by command
	$(TESTS) -m slow --durations=15

LOWEST := build/lowest

lowest: $(DEV)  ## quick tests with the lowest versions that pyproject.toml allows, of the core and the extra `test`
	rm -rf $(LOWEST)
	$(BIN)/uv venv --quiet --python $(BIN)/python $(LOWEST)
	$(BIN)/uv pip install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct --editable '.[test]'
	$(BIN)/uv pip install --quiet --python $(LOWEST)/bin/python pytest-timeout pytest-xdist trustme
	$(LOWEST)/bin/tornlog run segment-rollover-crash --seeds 2
	$(LOWEST)/bin/python -m pytest -p no:cacheprovider --numprocesses $(JOBS) -m "$(TIER)" \
		tests/test_command_line.py tests/sim tests/store/formats tests/faults/simulation tests/scenarios/claims \
		tests/scenarios/testing/strategies

# Under Python 3.11 a thread can die in its first line while another one is traced; the code is not at fault.
coverage: $(DEV)  ## the tests of store/ and faults/ with the line coverage of both, in three times as long
	$(TESTS) -m "not slow" tests/store tests/faults --reruns 2 --only-rerun "Exception ignored in thread started by" \
		--cov --cov-report=term --cov-fail-under=90

lint: $(DEV)  ## style, then types, then workflows
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy -p tornlog -p tests.bench -p tests.conformance
	$(BIN)/zizmor --quiet --offline .github action.yml

# Python allocates by malloc here, so that the sanitizer knows the bounds of every object.
SANITIZED := build/sanitized
NATIVE := store/formats/native
TRACING := faults/probe/tracing/native
SANITIZE = $(CC) -g -O1 -Wall -Wextra -Werror -fsanitize=address,undefined -fno-sanitize-recover=all -fvisibility=hidden \
	-shared -fPIC $$($(BIN)/python -c 'import sysconfig; print("-I" + sysconfig.get_path("include"))')

sanitize: $(DEV)  ## the cores in C under the sanitizers for addresses and undefined behaviour, by the tests that use them
	mkdir -p $(SANITIZED)
	$(SANITIZE) $(NATIVE)/*.c -o $(SANITIZED)/_records.abi3.so
	$(SANITIZE) $(TRACING)/*.c -o $(SANITIZED)/_stops.abi3.so
	LD_PRELOAD="$$($(CC) -print-file-name=libasan.so)" ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc \
		SANITIZED_CORE=$(SANITIZED)/_records.abi3.so SANITIZED_STOPS=$(SANITIZED)/_stops.abi3.so \
		$(BIN)/pytest -p no:cacheprovider --numprocesses $(JOBS) -k "not simulated" \
		tests/store/formats/test_columns.py tests/store/formats/test_put_core.py tests/store/test_core.py \
		tests/faults/probe/tracing/test_core.py tests/faults/probe/tracing/test_plain_calls.py

bench: $(DEV)  ## figures of this machine, per second
	$(BIN)/python -m tests.bench

compare: $(DEV)  ## every check against the real store, which Maven fetches: 480 directories of each side
	$(BIN)/python -m tests.conformance --against rocketmq-4.9.8 --seeds 480 --jobs $(JOBS) --out out

peers: $(DEV)  ## the mini workload with the nearest tools; `pip install '.[bench]'` has them
	$(BIN)/python -m tests.peers

mutation: $(DEV)  ## every mutant made by rule, for hours
	$(BIN)/python -m tornlog mutants --set tests.mutation --narrowed --seeds 500 --jobs $(JOBS)

GALLERY := COLUMNS=200 $(BIN)/python -m tests.gallery --jobs $(JOBS)
# Rows by name, as in `make gallery ONLY="lmdb zodb"`; APT=1 installs packages of the system that a row needs.
ONLY :=

conditions: $(DEV)  ## the outcomes of the store's conditions that no run reaches; the runs go to out/conditions
	mkdir -p out
	$(BIN)/python -m tests.conditions --seeds 120 --jobs $(JOBS) --out out/conditions

gallery: $(DEV)  ## every program of docs/gallery measured, for an hour; the site's table shows the results
	$(GALLERY) --write $(if $(APT),--apt) $(ONLY)

gallery-confirm: $(DEV)  ## its findings confirmed without tornlog, by scripts that kill for real
	$(GALLERY) --confirm --write $(ONLY)

gallery-real: $(DEV)  ## its programs cut on a real ext4, compared with the model; needs root and loop devices
	COLUMNS=200 $(BIN)/python -m tests.gallery.real $(ONLY)

gallery-page: $(DEV)  ## docs/what-breaks.md and its picture, from the stored results
	$(BIN)/python -m tests.gallery.overview

calibrate: $(DEV)  ## known databases, each setting recorded and cut, expected and found results; apt has redis-server and golang
	$(GALLERY) sqlite lmdb leveldb rocksdb redis git bbolt badger

conformance: $(DEV)  ## the real RocketMQ recorded on its JVM: which published findings its own writes show
	COLUMNS=200 $(BIN)/python -m tests.gallery.rocketmq --jobs $(JOBS)

soak: $(DEV)  ## a broker among hostile clients for ten minutes
	$(BIN)/python -m tests.soak --time 10m

dist:  ## dist/ of the last commit: sdist and wheel, checked, and tried in an empty environment of each PYTHONS
	.ci/dist

VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)

release:  ## a tag of the version, pushed: the workflow `release` builds, tests, signs and publishes it
	@test -z "$$(git status --porcelain)" || { echo "the working tree has changes: commit them first"; exit 1; }
	$(PYTHON) .ci/release_notes.py "v$(VERSION)" >/dev/null
	.ci/dist
	git tag --annotate "v$(VERSION)" --message "tornlog $(VERSION)"
	git push origin "v$(VERSION)"

docs: $(DEV)  ## the site, in build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

hooks:  ## a check of commit titles before each commit: `component: do this`, at most 72 characters
	ln -sf "$(CURDIR)/.ci/commit-msg" "$$(git rev-parse --git-path hooks)/commit-msg"

LOST := segment-rollover-crash-dur-record

pictures: gallery-page  ## the pictures of docs/commands.md and docs/what-breaks.md; the timeline needs Chromium
	$(BIN)/tornlog plot latency --out out
	-$(BIN)/tornlog run segment-rollover-crash --mutant no-dir-fsync-on-rollover --seeds 50 --out out
	-$(BIN)/tornlog replay --original out/failures/$(LOST).json --timeline out/lost.html
	cp out/latency.png docs/pictures/latency.png
	$(BIN)/python docs/site/screenshot.py out/lost.html docs/pictures/timeline.png

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit("tornlog needs Python 3.11 or newer; run make PYTHON=python3.11") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)

$(CORE): $(BUILT_FROM) | $(BIN)/python
	$(BIN)/pip install --editable .
	touch $@

# Few of the thousands of modules are ever imported, so none is compiled ahead: 30 s of 130.
$(DEV): $(BUILT_FROM) | $(BIN)/python
	@echo "Installing Spark, a Java for it and the tools of the tests: some 1.6 GB, once"
	$(BIN)/pip install --no-compile --editable '.[dev]'
	touch $(CORE) $@

clean:
	rm -rf $(VENV) build dist out *.egg-info .coverage .mypy_cache .pytest_cache .ruff_cache .hypothesis
