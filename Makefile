# SPDX-License-Identifier: Apache-2.0
# Two commands do everything on a fresh machine: `make demo` runs the main job, `make test-full` passes all tests.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

# What is installed for the demo, and what for the tests: stamps, lists of Debian packages, extras of pyproject.toml.
STAMP        := $(VENV)/.set-up
LISTS        := debian-packages-demo.txt
EXTRAS       := emulator,demo
TESTS_STAMP  := $(VENV)/.set-up-tests
TESTS_LISTS  := $(LISTS) debian-packages-tests.txt
TESTS_EXTRAS := $(EXTRAS),dev
# A further package index, for PyTorch's CPU build: docs/install.md.
TORCH_INDEX ?=
export PYTHON VENV TORCH_INDEX
# The optimiser's engine, a few seconds once for a state of its sources: here, and not in somebody's first plan.
BUILD_ENGINE := $(BIN)/python -c 'from poet_planner.solve.engine import library; library()'

# PlatformIO keeps its packages in the project, asks nobody for upgrades and reports nothing.
export PLATFORMIO_CORE_DIR := $(CURDIR)/.pio-core
export PLATFORMIO_SETTING_ENABLE_TELEMETRY := No
export PLATFORMIO_DISABLE_UPGRADE_CHECK := true

.PHONY: help setup debian-packages python-packages demo test test-rest test-full lint lint-ruff lint-format lint-c \
        lint-types unit newest profiles notebooks clean

help:
	@echo "make demo    set up, then plan, flash and train on the emulated nRF52840; ARGS=--full: profile and compare, too;"
	@echo "             ARGS=--board=riscv: an Arduino sketch on a RISC-V core in QEMU, from its board file on"
	@echo "make test    set up, then lint and the fast level of the tests"
	@echo "make test-full  all checks: make test, then make test-rest, the rest of the tests"
	@echo "make lint    ruff, clang-format and mypy alone"
	@echo "make unit    all tests at once, or some (ARGS=... goes to pytest)"
	@echo "make newest  all --json, and what concerns PyTorch, with the newest releases that pyproject.toml allows"
	@echo "make setup   what the checks need, without running them"
	@echo "make profiles   make the shipped profiles anew: published constants, and the emulated boards"
	@echo "make notebooks  run the notebooks and keep their pictures in them"
	@echo "make clean   remove what was built (not the virtual environment)"

setup: $(TESTS_STAMP)

$(STAMP): pyproject.toml constraints.txt $(LISTS)
	$(MAKE) --no-print-directory -j2 debian-packages python-packages
	$(BUILD_ENGINE)
	touch $@

$(TESTS_STAMP): pyproject.toml constraints.txt $(TESTS_LISTS)
	$(MAKE) --no-print-directory -j2 debian-packages python-packages LISTS='$(TESTS_LISTS)' EXTRAS=$(TESTS_EXTRAS)
	$(BUILD_ENGINE)
	touch $(STAMP) $@

debian-packages:
	./install-debian-packages $(LISTS)

# Debian's own Python makes virtual environments once it has a package for that; else both go on at once.
python-packages: $(shell $(PYTHON) -c 'import ensurepip' 2>/dev/null || echo debian-packages)
	./install-python-packages $(EXTRAS)

demo: $(STAMP)
	$(BIN)/python demo/digits.py $(ARGS)

test: LEVEL := --level=fast
test: lint unit

test-rest: LEVEL := --level=rest
test-rest: unit

# One after the other: two runs of pytest would be in each other's way.
test-full:
	$(MAKE) test
	$(MAKE) test-rest

# .pre-commit-config.yaml calls the same targets; tests/test_pre_commit.py compares the two.
lint: lint-ruff lint-format lint-c lint-types

lint-ruff: $(TESTS_STAMP)
	$(BIN)/ruff check .

lint-format: $(TESTS_STAMP)
	$(BIN)/ruff format --check .

lint-c: $(TESTS_STAMP)
	$(BIN)/clang-format --dry-run -Werror $$(find benchmarks firmware harness planner tests -name '*.[ch]')

lint-types: $(TESTS_STAMP)
	$(BIN)/mypy

unit: $(TESTS_STAMP)
	@# xdist hands a dead worker's finished files out again, and then waits for ever: rather end there
	$(BIN)/python -m pytest -n 2 --dist loadfile --max-worker-restart 0 --durations 40 $(LEVEL) $(ARGS)

# In an environment of its own, made anew each time, of CPython 3.13 where that runs. Commit what it writes: CI runs it
# again where ranges have changed, and README.md names what passed.
newest: export CONSTRAINTS := /dev/null
newest: VENV := build/newest
newest: PYTHON = $(or $(shell PYENV_VERSION=3.13 python3.13 -c 'import ensurepip, sys; print(sys.executable)' 2>/dev/null),python3)
newest: debian-packages
	rm -rf $(VENV)
	./install-python-packages $(TESTS_EXTRAS)
	$(VENV)/bin/python -m pytest tests/newest/json_verbs.py
	$(VENV)/bin/python -m pytest -n 2 --dist loadfile tests/planner/tracing tests/planner/lowering \
	    tests/planner/torch_step tests/runtime
	tests/newest/releases $(VENV) > tests/newest/passed.txt
	tests/newest/ranges > tests/newest/seen.txt

profiles: $(STAMP)
	$(BIN)/python -m poet_planner.planning.published_profiles --out profiles
	mkdir -p build
	rm -f build/nrf52840.csv build/mkr1000.csv
	@# soft floats are quicker on the zeros of training: what fits the MKR1000 is timed in place (docs/profiling.md),
	@# single samples first: else their inference would be timed on random numbers
	$(BIN)/poet-plan data --model digits_cnn_small --steps 5 --out build/in-place.npz
	for parts in 4 2 1; do \
	    $(BIN)/poet-plan --model digits_cnn_small --profile m0 --gradients resident --micro-batches $$parts \
	        --time-limit 10 --out build/in-place && \
	    $(BIN)/poet-harness flash --board mkr1000 --emulate --plan build/in-place && \
	    $(BIN)/poet-harness profile --board mkr1000 --emulate --plan build/in-place --data build/in-place.npz --steps 5 \
	        --lr 0.1 --quick --resume --out build/mkr1000.csv || exit 1; \
	done
	@# the built-in models' layers on int8 are measured with the models; of this one the smaller batch alone fits
	$(BIN)/poet-plan graph --model finetune_cnn --batch 2 --frozen int8 --board mkr1000 --out build/int8/graph.json
	$(BIN)/poet-harness profile --board mkr1000 --emulate --graph build/int8/graph.json --quick --resume \
	    --out build/mkr1000.csv
	@# --quick: a second window of an emulated board says what the first one said
	for board in nrf52840 mkr1000; do \
	    $(BIN)/poet-harness profile --board $$board --emulate --quick --resume --out build/$$board.csv || exit 1; \
	    mv build/$$board.csv profiles/$$board.csv; \
	done
	$(BIN)/poet-plan graph --model digits_cnn --profile profiles/nrf52840.csv --out build/demo/graph.json
	$(BIN)/poet-plan graph --model digits_cnn --profile profiles/nrf52840.csv --micro-batches 24 \
	    --out build/demo/micro_batch.json
	mv build/demo/graph.json build/demo/micro_batch.json demo/

notebooks: $(TESTS_STAMP)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m nbconvert --to notebook --execute --inplace notebooks/*.ipynb

clean:
	rm -rf .pio build out .pytest_cache .mypy_cache .ruff_cache
