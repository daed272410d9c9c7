# AxialBench: `make bench` measures this commit and publishes the site; `make test` proves every backend right.
# Both set up .venv on first use, and only then (again when pyproject.toml or constraints.txt change).

PYTHON ?= python3
BASE ?= HEAD
HEAD ?= .
BIN := .venv/bin
READY := .venv/.ready
KERNELS := .venv/.kernels
# Every pip, asv's own included, installs the torch that constraints.txt pins.
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: bench-self compare-commits help setup bench site demo test fuzz lint types compare figures gpu-check contracts clean
.DEFAULT_GOAL := help

help:
	@echo "make bench    measure the current commit at quick effort and publish the site (about 7 minutes on 2 cores)"
	@echo "make test     prove every backend against the float64 specification, and test the rest"
	@echo "make fuzz     random problems over every backend for MINUTES=10; what fails is shrunk and printed"
	@echo "make compare  backends side by side on a few AlphaFold shapes, grouped by problem (pytest-benchmark)"
	@echo "make gpu-check  look a CUDA machine over in 8 minutes: backends, proof, instrument, speed (docs/gpu.md)"
	@echo "make contracts  run every backend and write docs/backends.md: what each declares, and what was found"
	@echo "make compare-commits BASE=main HEAD=.   two revisions measured against each other in pairs; fails on slower"
	@echo "make bench-self   where the time of our own measuring goes (EFFICIENCY_ARGS='--effort full --op triangle')"
	@echo "make site     rebuild the site from results/ without measuring"
	@echo "make demo     a sample site in site-demo/: what was measured here, and a generated history of COMMITS=1000"
	@echo "make lint     ruff;  make types  mypy;  make clean  remove what the others made, results aside"

setup: $(READY)

# torch first and alone: asked for by another package, pip may choose another build of it.
$(READY): pyproject.toml constraints.txt
	@echo "Setting up .venv (once)"
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet torch hatchling editables
	$(BIN)/python -m pip install --quiet --no-build-isolation --editable '.[bench,site,test,lint]'
	@touch $@

# The Triton kernels of flash-attn and trifast run on a CPU in Triton's interpreter: a check of their maths and of our
# adapters. The tests that need these packages skip, with their reason, where they cannot be installed. (Triton 3.9
# refuses flash-attn 2.8.3.)
$(KERNELS): $(READY)
	@echo "Installing flash-attn (Triton kernels only), trifast and xformers for the tests (once)"
	-$(BIN)/python -m pip install --quiet triton==3.8.0 setuptools wheel packaging ninja einops psutil platformdirs
	-$(BIN)/python -m pip install --quiet --no-deps trifast==0.1.13
	-FLASH_ATTENTION_TRITON_AMD_ENABLE=TRUE FLASH_ATTENTION_FORCE_BUILD=TRUE FLASH_ATTENTION_SKIP_CUDA_BUILD=TRUE \
		$(BIN)/python -m pip install --quiet --no-build-isolation --no-deps flash-attn==2.8.3.post2 xformers==0.0.35
	@touch $@

bench: $(READY)
	$(BIN)/python -m benchmarks run
	@$(MAKE) --no-print-directory site

site: $(READY)
	$(BIN)/python -m dashboard build

# Generated journals of 560 series lie in .demo while the site is built of them and of what was measured.
COMMITS ?= 1000
demo: $(READY)
	$(BIN)/python -m dashboard.demo .demo --commits $(COMMITS) --dtype float32 --beside results
	$(BIN)/python -m dashboard build --no-asv --results .demo --out site-demo
	@rm -rf .demo

test: $(READY) $(KERNELS)
	$(BIN)/python -m pytest --numprocesses auto --dist loadgroup $(PYTEST_ARGS)

MINUTES ?= 10
fuzz: $(READY)
	$(BIN)/python tests/fuzz.py --minutes $(MINUTES) $(FUZZ_ARGS)

compare: $(READY)
	$(BIN)/python -m pytest tests/test_side_by_side.py --benchmark-only --benchmark-group-by=group \
		--benchmark-columns=min,median,iqr,rounds --benchmark-sort=min $(PYTEST_ARGS)

gpu-check: $(READY)
	$(BIN)/python -m benchmarks gpu-check $(GPU_CHECK_ARGS)

contracts: $(READY)
	$(BIN)/python -m impls contracts --page docs/backends.md --record results/conformance/contracts.jsonl

compare-commits: $(READY)
	$(BIN)/python -m benchmarks compare $(BASE) $(HEAD) $(COMPARE_ARGS)

bench-self: $(READY)
	$(BIN)/python -m benchmarks efficiency $(EFFICIENCY_ARGS)

figures: $(READY)
	$(BIN)/python -m dashboard figures

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@cd dashboard/site && $(call with_npx,@biomejs/biome@2.3.8,biome lint --error-on-warnings)

types: $(READY)
	$(BIN)/mypy
	@$(call with_npx,typescript@5.9.3,tsc -p dashboard/site/jsconfig.json)

# What checks the site's JavaScript comes by npx (Debian: nodejs, npm).
with_npx = if command -v npx >/dev/null; then npx --yes --package $(1) $(2); \
	else echo "The site's JavaScript was not checked: npx is missing"; fi

clean:
	rm -rf .venv .asv .demo site site-demo build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
