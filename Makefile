# make demo     decode and augment real photographs, compare every engine, write demo/
#               (own photographs: make demo DATA=folder; another place: OUT=folder)
# make test     the tests (more words for pytest: ARGS="-k bijection")
# make test-all the tests that take long as well: clusters, fuzzing, the oldest versions of libraries; writes tests/outcome.md
# make docs     the site, into site/html (no network is needed; warnings are errors)
# make check    ruff and the type checker
# make dist     the wheel and the sdist, in dist/
# make gpu      on a machine with a GPU: PART=a, b or c of a visit (without it all three), results into OUT=folder
#               (own photographs: PHOTOS=folder; time limit of a part: SECONDS=240; single steps: STEPS="waits races";
#               REHEARSE=1 runs the same code on the CPU with small inputs); see docs/gpu.md
#
# demo, test, docs, check and dist build .venv by themselves: demo with what it needs (7 GB, of which PyTorch with its
# CUDA libraries takes 6), the others with the tools of the tests as well (9.3 GB). gpu uses the packages that are
# importable.

SHELL := /bin/bash
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt
CODE := readers gpu_aug dali_pipes bench examples tests
# A test that hangs or crashes ends the run: pytest-xdist would wait for its worker without end.
PYTEST := $(BIN)/python -m pytest -q -n auto --dist loadfile --no-loadscope-reorder \
  --max-worker-restart 0 --timeout-method thread

DATA ?=
demo: OUT ?= demo
gpu: PYTHON ?= $(if $(wildcard $(BIN)/python),$(BIN)/python,python3)

export NO_ALBUMENTATIONS_UPDATE := 1
# The tests start hundreds of processes: each would compile our packages and the tests again.
test test-all: export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-all docs check dist gpu

demo: .venv/demo-ready
	@$(BIN)/python -m bench.demo --out "$(OUT)" $(if $(DATA),--data "$(DATA)")

test: .venv/ready
	@$(PYTEST) --timeout 300 $(ARGS)

test-all: .venv/ready
	@GPU_AUG_TESTS=all $(PYTEST) --timeout 1800 --durations 20 --write-outcome tests/outcome.md $(ARGS)

docs: .venv/ready
	@$(BIN)/python -m sphinx -M html docs site --quiet --fail-on-warning --jobs auto $(ARGS)

check: .venv/ready
	@$(BIN)/ruff check $(CODE) docs
	@$(BIN)/ruff format --check --quiet $(CODE) docs
	@$(BIN)/mypy

dist: .venv/ready
	@rm -rf build dist
	@$(BIN)/python -m build --no-isolation . >build.log || { tail -n 20 build.log >&2; exit 1; }
	@rm -rf build build.log
	@$(BIN)/twine check --strict dist/*

gpu:
	@test -n "$(OUT)" || { echo "say where the results go: make gpu OUT=folder" >&2; exit 2; }
	@$(PYTHON) -m bench.gpu --out "$(OUT)" $(PART:%=--part=%) $(STEPS:%=--only=%) \
	  $(if $(PHOTOS),--photos "$(PHOTOS)") $(if $(SECONDS),--seconds $(SECONDS)) $(if $(REHEARSE),--rehearse)

.venv/ready: .venv/demo-ready
	@echo "adding the tools of the tests to .venv, a few minutes the first time"
	@$(INSTALL) -e ".[cuda12,dev]"
	@touch $@

.venv/demo-ready: pyproject.toml constraints.txt
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
	@$(INSTALL) -e ".[cuda12,demo]"
	@touch $@
