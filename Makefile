# The map: every command here is one that people and CI run alike.
VENV   ?= .venv
PYTHON ?= python3
BIN    := $(VENV)/bin
PROCESSES ?= 6

.PHONY: demo install test durations check schema bench fuzz soak model fault-matrix sdk-table clean

demo: $(VENV)/.installed          ## the whole loop on this machine, in under 30 seconds
	$(BIN)/wakegate demo

install: $(VENV)/.installed-dev   ## everything that the other commands need

test: $(VENV)/.installed-dev      ## every test: most of them side by side, then those that want the machine to themselves
	[ -d tests/__pycache__ ] || $(BIN)/python -m pytest --collect-only -qq >/dev/null  # compiled once, not by each process
	$(BIN)/python -m pytest --numprocesses $(PROCESSES) --dist worksteal -m "not alone"
	$(BIN)/python -m pytest -m alone $$(grep -rl --include='test_*.py' 'mark\.alone' tests)

durations: $(VENV)/.installed-dev ## write anew how long each test takes, by which `make test` begins the longest early
	WAKEGATE_TEST_DURATIONS=1 $(BIN)/python -m pytest --numprocesses $(PROCESSES) --dist worksteal -m "not alone"

check: $(VENV)/.installed-dev     ## lint, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

schema: $(VENV)/.installed        ## write the OpenAPI documents anew from the types
	$(BIN)/python -m wakegate_receiver.openapi > schema/openapi/receiver.json
	$(BIN)/python -m wakegate_receiver.control > schema/openapi/control.json

bench: $(VENV)/.installed-bench   ## measure everything side by side in under 15 minutes, and write the tables: make bench BENCH="--only starts"
	$(BIN)/python -m benchmarks $(BENCH)

fuzz: $(VENV)/.installed-dev      ## a minute for each target, with atheris if '.[fuzz]' is installed: make fuzz FUZZ="json --seconds 600"
	PYTHONPATH=tests $(BIN)/python -m fuzz $(FUZZ)

soak: $(VENV)/.installed-dev      ## random kills and outages under load, then a count: make soak MINUTES=10 SEED=1 DATABASE=postgresql QUEUE=redis
	PYTHONPATH=tests $(BIN)/python -m soak --minutes $(or $(MINUTES),10) $(if $(SEED),--seed $(SEED)) \
		--database $(or $(DATABASE),sqlite) --queue $(or $(QUEUE),embedded)

model: $(VENV)/.installed-dev     ## search histories at random for one that the model disagrees with: make model HISTORIES=200 DATABASE=postgresql
	WAKEGATE_TEST_DATABASE=$(or $(DATABASE),sqlite) WAKEGATE_TEST_HISTORIES=$(or $(HISTORIES),50) \
		$(BIN)/python -m pytest tests/model/test_model.py --show-capture=no

fault-matrix: $(VENV)/.installed-dev  ## break every fault point in every way and write the table in docs/reliability.md: make fault-matrix GROUND=postgresql+redis
	PYTHONPATH=tests $(BIN)/python -m faults.matrix $(GROUND) $(if $(EVERYWHERE),everywhere)

sdk-table: $(VENV)/.installed-dev ## tell real frameworks' stories with wakegate and with the SDK's receiver, and write docs/sdk-observations.md
	PYTHONPATH=tests $(BIN)/python -m frameworks.table $(FRAMEWORKS)

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable .
	touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $(VENV)/.installed $@

$(VENV)/.installed-sdk-harness: pyproject.toml constraints.txt | $(BIN)/python  # for examples/sdk_harness
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[langgraph]' uvicorn
	touch $(VENV)/.installed $@

$(VENV)/.installed-bench: $(VENV)/.installed-dev
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,bench]'
	touch $@
