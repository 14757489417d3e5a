# On a machine with Python 3.11 or later and make, each of these is the only command needed:
#   make demo   the main job on the bundled workload: figures in ./demo
#   make test   all tests
# With the published measurements at hand (docs/accuracy.md says where they come from):
#   make accuracy DATA=FOLDER   every number and figure of docs/accuracy.md again, in ./accuracy

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip -qq --disable-pip-version-check
RUNTIME := $(VENV)/.runtime-installed
DEV := $(VENV)/.dev-installed
KERNELS := $(VENV)/.kernels-installed

# What tests need beyond the `dev` extra: torch, for the tests of calibration that run kernels, and
# NVIDIA's kernel times. Only here: the demo and the installed package do without them.
TEST_REQUIREMENTS := torch==2.13.0 aiconfigurator-core==0.12.0

# One folder a dataset.
DATA ?= ../shared/ground-truth
DATASETS = $(sort $(dir $(wildcard $(DATA)/*/.)))

# setup.py compiles some of SOURCES when Runway is installed, if there is a C compiler.
COMPILED = $(wildcard simulator/compiled-*.txt) $(shell find simulator costmodels -name "*.so")
SOURCES := setup.py $(wildcard simulator/*.py simulator/schedulers/*.py costmodels/*.py)

# Every start is quicker by 0.1 s with bytecode, which Python itself does not write everywhere.
PACKAGES := simulator costmodels calibration workloads experiments
BYTECODE = $(BIN)/python -m compileall -q -j 0 $(PACKAGES)

.PHONY: demo test check lint fix bench figures accuracy data clean

demo: $(RUNTIME)
	@rm -rf demo
	$(BIN)/runway sweep --workload bundled --cost-model b300-qwen3-32b-tp2 \
	  --chunk-size 256,512,1024,2048,none --max-num-batched-tokens 512,2048,8192 --out demo

test: $(DEV)
	$(BIN)/python -m pytest -n auto --maxprocesses 4

check: lint test

lint: $(DEV)
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy

fix: $(DEV)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: $(DEV)
	$(BIN)/python -m tests.benchmarks

figures: $(RUNTIME)
	$(BIN)/python docs/figures/draw.py
	$(BIN)/python -m experiments.studies

accuracy: data $(KERNELS)
	@mkdir -p accuracy
	$(BIN)/runway validate $(DATASETS) --out accuracy >accuracy/table.txt
	$(BIN)/python -m experiments.validation.page accuracy/report.json docs/accuracy.md README.md
	@cp accuracy/figures/aic_fpm-e2el-ms-ended-in-the-test-part.png docs/figures/accuracy-steps.png
	@cp accuracy/figures/llmservingsim-ttft-ms.png docs/figures/accuracy-kernel-tables.png
	@cp accuracy/figures/residency-error-by-load.png docs/figures/accuracy-loads.png
	@cp accuracy/figures/silicon-tpot-ms.png docs/figures/accuracy-servers.png
	@echo "figures: docs/figures/accuracy-*.png; all figures and numbers: accuracy/"

data:
	@if [ -z "$(DATASETS)" ]; then \
	  echo "$(DATA) holds no datasets: docs/accuracy.md says which there are and where they are" \
	    "published; put each in a folder of its own and call make accuracy DATA=FOLDER" >&2; \
	  exit 2; \
	fi

clean:
	find $(PACKAGES) -name __pycache__ -exec rm -rf {} +
	rm -rf $(VENV) demo accuracy build *.egg-info $(COMPILED) .mypy_cache .ruff_cache .hypothesis

$(RUNTIME): pyproject.toml $(SOURCES) | $(BIN)/python
	@echo "installing Runway into $(VENV) (a minute or two the first time)"
	@$(PIP) install --editable .
	@$(BYTECODE)
	@$(BIN)/runway --version
	@touch $@

$(KERNELS): pyproject.toml Makefile $(SOURCES) | $(BIN)/python
	@echo "installing Runway and NVIDIA's kernel times into $(VENV) (a minute the first time)"
	@$(PIP) install --editable ".[aic]" $(filter aiconfigurator-core%,$(TEST_REQUIREMENTS))
	@$(BYTECODE)
	@touch $(RUNTIME) $@

$(DEV): pyproject.toml Makefile $(SOURCES) | $(BIN)/python
	@echo "installing Runway and its test tools into $(VENV) (a minute or two the first time)"
	@$(PIP) install --editable ".[dev]" $(TEST_REQUIREMENTS)
	@$(BYTECODE)
	@$(BIN)/runway --version
	@touch $(RUNTIME) $@

# Tried by running it: a python3.11 on the path may be a shim for a version that is not there.
$(BIN)/python:
	@for python in $(PYTHON) python3.11 python3.12 python3.13 python3.14 python3 python; do \
	  if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
	    "$$python" -m venv $(VENV) && exit 0; \
	    rm -rf $(VENV); exit 1; \
	  fi; \
	done; \
	echo "Runway needs Python 3.11 or later; if it is not on the path: make PYTHON=FILE" >&2; exit 1
