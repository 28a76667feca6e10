# Everything a checkout needs; `make` lists the targets.
#   make PYTHON=python3.12 ...   another Python (3.10 or newer)
#   make demo CUDA=no            leave the GPU alone

PYTHON ?= python3
CUDA ?= auto
PYTEST_ARGS ?=
export PYTHON

BIN := .venv/bin
CUDA_EXTRA := $(if $(filter no,$(CUDA)),,cuda-if-present)

.DEFAULT_GOAL := help
.PHONY: help demo test gpu-test cluster-test compile-test lint format ui clean

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.* ## /\1|/p' Makefile | while IFS='|' read -r name text; do printf '  make %-12s %s\n' "$$name" "$$text"; done

demo: ## Install what is needed, then sweep the context length of the KV-cache kernels
	@.ci/setup-venv $(CUDA_EXTRA)
	$(BIN)/python -m runner kernel=kv_quant shape=long_ctx -m

# Tests that look at times and memory run by themselves; then all others in two processes, a file in one of them.
ALONE := tests/backend tests/measure tests/workload

# Tests start Python hundreds of times: where the shell forbids bytecode, each start would compile all it imports.
test gpu-test: export PYTHONDONTWRITEBYTECODE :=

test: lint ## Lint, types and all tests that need no GPU
ifeq ($(strip $(PYTEST_ARGS)),)
	@status=0; \
	$(BIN)/python -m pytest -q -m "not gpu and not cluster" $(ALONE) || status=$$?; \
	$(BIN)/python -m pytest -q -m "not gpu and not cluster" -n 2 --dist loadfile --no-loadscope-reorder $(ALONE:%=--ignore=%) || status=$$?; \
	exit $$status
else
	$(BIN)/python -m pytest -q -m "not gpu and not cluster" $(PYTEST_ARGS)
endif

gpu-test: ## The tests that need an NVIDIA GPU and nvcc
	@.ci/setup-venv dev cuda
	$(BIN)/python -m pytest -q -m gpu $(PYTEST_ARGS)

cluster-test: ## Long sweeps on a real Slurm and a real Ray of this machine, with losses (as root)
	@.ci/setup-venv dev ray
	$(BIN)/python -m pytest -q -m cluster tests/launch $(PYTEST_ARGS)

compile-test: ## Every kernel source through nvcc for every architecture: no warning, no spill
	@.ci/setup-venv dev
	RUNNER_ALL_ARCHITECTURES=1 $(BIN)/python -m pytest -q tests/kernels/test_compile.py $(PYTEST_ARGS)

lint: ## ruff and mypy only
	@.ci/setup-venv dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: ## Put the code into ruff's format and sort its imports
	@.ci/setup-venv dev
	$(BIN)/ruff check --select I --fix .
	$(BIN)/ruff format .

ui: ## Serve the results on this machine only
	@.ci/setup-venv $(CUDA_EXTRA)
	$(BIN)/python -m runner.ui

clean: ## Remove .venv and caches; results (mlruns, outputs, multirun) stay
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
