# make demo     decode and augment real photographs, compare every engine, write demo/
#               (own photographs: make demo DATA=folder; another place: OUT=folder)
# make test     the tests (more words for pytest: ARGS="-k bijection")
# make test-all the tests that take long as well: clusters, fuzzing, the oldest versions of libraries; writes tests/outcome.md
# make check    ruff and the type checker
# make gpu      on a machine with a GPU: the CUDA tests and benchmarks, into OUT=folder
#               (only some: STEPS="right", "fast", or names such as "kernel tiles")
#
# demo, test and check build .venv by themselves; gpu uses the packages that are importable.

SHELL := /bin/bash
BIN := .venv/bin
CODE := readers gpu_aug dali_pipes bench examples tests

DATA ?=
demo: OUT ?= demo
gpu: PYTHON ?= $(if $(wildcard $(BIN)/python),$(BIN)/python,python3)

export NO_ALBUMENTATIONS_UPDATE := 1

.PHONY: demo test test-all check gpu

demo: .venv/ready
	@$(BIN)/python -m bench.demo --out "$(OUT)" $(if $(DATA),--data "$(DATA)")

test: .venv/ready
	@$(BIN)/python -m pytest -q -n auto --dist loadfile --no-loadscope-reorder $(ARGS)

test-all: .venv/ready
	@GPU_AUG_TESTS=all $(BIN)/python -m pytest -q -n auto --dist loadfile --no-loadscope-reorder \
	  --write-outcome tests/outcome.md $(ARGS)

check: .venv/ready
	@$(BIN)/ruff check $(CODE)
	@$(BIN)/ruff format --check --quiet $(CODE)
	@$(BIN)/mypy

gpu:
	@test -n "$(OUT)" || { echo "say where the results go: make gpu OUT=folder" >&2; exit 2; }
	@$(PYTHON) -m bench.gpu --out "$(OUT)" $(STEPS:%=--only=%)

.venv/ready: pyproject.toml constraints.txt
	@good='import sys, venv; sys.exit(sys.version_info < (3, 11))'; \
	for python in $(PYTHON) python3 python3.13 python3.12 python3.11 python3.14; do \
	  if $$python -c "$$good" 2>/dev/null; then found=$$python; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	  echo "gpu-aug needs Python 3.11 or newer with venv, got $$(python3 --version 2>&1 || true):" \
	    "install one, or name it with PYTHON=/path/to/python3." >&2; exit 1; \
	fi; \
	echo "building .venv with $$($$found --version), a few minutes the first time"; \
	$(BIN)/python -m pip --version >/dev/null 2>&1 || $$found -m venv --clear .venv || { \
	  echo "$$found could not make .venv: install its venv and ensurepip (on Debian: apt install python3-venv)." >&2; exit 1; }
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e ".[cuda12,dev]"
	@touch $@
