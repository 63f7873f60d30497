# Everything runs in the virtual environment .venv, which `make setup` creates; the other targets depend on it.

PYTHON ?= python3
BIN := $(CURDIR)/.venv/bin

# MPI: the system's if mpicc and mpirun are on the PATH (outside .venv), otherwise one from the package index.
SYSTEM_PATH := $(subst $(BIN):,,$(PATH):)
SYSTEM_MPICC := $(shell PATH="$(SYSTEM_PATH)" command -v mpicc)
SYSTEM_MPIRUN := $(shell PATH="$(SYSTEM_PATH)" command -v mpirun)
MPI := $(if $(and $(SYSTEM_MPICC),$(SYSTEM_MPIRUN)),$(SYSTEM_MPICC),index)
STAMP := .venv/.setup-$(subst /,-,$(MPI))

export PATH := $(BIN):$(PATH)
# By default, Open MPI refuses to run as root or with more ranks than cores, and pins concurrent runs to the same cores.
export OMPI_ALLOW_RUN_AS_ROOT := 1
export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM := 1
export OMPI_MCA_rmaps_base_oversubscribe := 1
export OMPI_MCA_hwloc_base_binding_policy := none
export PRTE_MCA_rmaps_default_mapping_policy := :oversubscribe
export PRTE_MCA_hwloc_default_binding_policy := none

# Prints 2 if mpirun and mpi4py use the same MPI; otherwise each process forms a separate world, or there is an error.
WORLD := mpirun -n 2 '$(BIN)/python' -c 'from mpi4py.MPI import COMM_WORLD as world; \
    sizes = world.gather(world.size); sizes and print(len(sizes))'

.DEFAULT_GOAL := help
.PHONY: help setup demo rerank-demo multi30k europarl methods discretised defaults test check lint types unit uncompiled checked test-faults docs format bench clean

help:  ## show this list
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' Makefile | expand -t 14

setup: $(STAMP)  ## create .venv with all dependencies and an MPI, if it does not exist

$(STAMP): pyproject.toml
	@# An environment for another MPI is deleted and created again, because two MPIs in one environment conflict.
	@$(if $(filter-out $(STAMP),$(wildcard .venv/.setup-*)),rm -rf .venv)
	@[ -x "$(BIN)/python" ] || $(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	    echo "make: $(PYTHON) cannot make virtual environments; on Debian: apt install python3-venv" >&2; exit 1; }
	@[ -x "$(BIN)/python" ] || $(PYTHON) -m venv .venv
	@echo "Installing mpitune and its dependencies into .venv; this takes a minute or two"
ifeq ($(MPI),index)
	@"$(BIN)/pip" install --quiet --editable '.[dev,mpi]'
else
	@echo "Using the system's MPI, $(SYSTEM_MPIRUN)"
	@"$(BIN)/pip" install --quiet --editable '.[dev]'
	@# A prebuilt mpi4py loads the first MPI library that the loader finds. If it finds none, or not that of mpirun, build
	@# an mpi4py that is linked with mpicc's library (without cache: it may contain a build for another MPI).
	@"$(BIN)/python" -m mpi4py --mpi-lib-version >/dev/null 2>&1 && [ "$$($(WORLD) 2>/dev/null)" = 2 ] || { \
	    echo "Building mpi4py with $(SYSTEM_MPICC); this takes some minutes"; \
	    MPICC="$(SYSTEM_MPICC)" "$(BIN)/pip" install --quiet --force-reinstall --no-deps --no-cache-dir \
	        --no-binary mpi4py mpi4py || true; }
endif
	@world=$$($(WORLD)); [ "$$world" = 2 ] || { \
	    library=$$("$(BIN)/python" -m mpi4py --mpi-lib-version 2>/dev/null | sed -n 1p); \
	    echo "make: \"mpirun -n 2\" does not form one world of 2 processes. mpirun is $$(command -v mpirun), the library" \
	        "of mpi4py: $${library:-none found}. They must be of the same MPI: load that one, or take mpicc and mpirun" \
	        "off the PATH to get one from the package index, and call make again." >&2; \
	    exit 1; }
	@# pip does so for all other packages, not for one that stays where it is.
	@"$(BIN)/python" -m compileall -q mpitune
	@echo "Compiling the decoder and the extractor; this takes half a minute"
	@"$(BIN)/python" -m mpitune.cli.warmup
	@touch $@

DEMO := runs/demo

$(DEMO)/job.toml: | $(STAMP)
	@mpitune init $(DEMO) --template demo

demo: $(DEMO)/job.toml  ## learn dense, then sparse weights for Japanese-English, translate, evaluate, report; minutes
	cd $(DEMO) && mpirun -n 2 mpitune train job.toml --set run.dir=runs/dense --set 'features.templates=[]'
	cd $(DEMO) && mpirun -n 2 mpitune train job.toml
	@cd $(DEMO) && mpirun -n 2 mpitune decode runs/dense/config.toml --input data/test.ja --output before
	@cd $(DEMO) && mpirun -n 2 mpitune decode job.toml --input data/test.ja --output after
	@echo
	@cd $(DEMO) && mpitune evaluate --refs data/test.en --hyps before after --test ar
	@mpitune report $(DEMO)/runs/job

LISTS := $(DEMO)/lists
START := jobs/papers/start.weights
# Of the demo's decoder with weights set by hand: $(call nbest,INPUT,LISTS,FORMAT), in the folder of the demo.
nbest = cd $(DEMO) && mpirun -n 2 mpitune decode job.toml --input $(1) --output $(2) --format $(3) \
    --weights '$(CURDIR)/$(START)' --nbest 100

rerank-demo: $(DEMO)/job.toml  ## tune and rerank n-best lists, those of the demo in three formats; minutes
	@mkdir -p $(LISTS)
	@for l in ja en; do head -350 $(DEMO)/data/dev.$$l > $(LISTS)/train.$$l; tail -150 $(DEMO)/data/dev.$$l > $(LISTS)/devtest.$$l; done
	$(call nbest,lists/train.ja,lists/train.moses.gz,moses)
	$(call nbest,lists/devtest.ja,lists/devtest.cdec.gz,cdec)
	$(call nbest,data/test.ja,lists/test.json.gz,json)
	mpirun -n 2 mpitune train jobs/rerank.toml
	@mpitune rerank jobs/rerank.toml --input $(LISTS)/test.json.gz --weights $(START) --output $(LISTS)/before
	mpitune rerank jobs/rerank.toml --input $(LISTS)/test.json.gz --output $(LISTS)/after
	@echo
	@mpitune evaluate --refs $(DEMO)/data/test.en --hyps $(LISTS)/before $(LISTS)/after --test ar
	@mpitune report jobs/runs/rerank

multi30k: setup  ## tune the systems of the papers' table on Multi30k (MPITUNE_DATA) and score them; two hours
	@"$(BIN)/python" jobs/papers/table.py --corpus multi30k

europarl: setup  ## the same on Europarl and news (MPITUNE_DATA), and BLEU by training sentences; a day
	@"$(BIN)/python" jobs/papers/table.py --corpus europarl
	@"$(BIN)/python" jobs/papers/scale.py --corpus europarl --write jobs/europarl

methods: setup  ## compare MIRA, PRO, MERT and others on Multi30k (MPITUNE_DATA): table and curves; two hours
	@"$(BIN)/python" jobs/papers/methods.py
	@"$(BIN)/python" jobs/papers/curves.py

discretised: setup  ## compare binned with linear features on Multi30k (MPITUNE_DATA): table and curves; an hour
	@"$(BIN)/python" jobs/papers/discretised.py

defaults: setup  ## measure the quality of the defaults on the demo and the sets of MPITUNE_DATA: tables; days
	@"$(BIN)/python" jobs/defaults/measure.py

test: lint types unit uncompiled checked  ## run all checks: lint, types, tests, kernels uncompiled and bounds-checked

check: lint types  ## check before a commit: lint, types, tests that take no seconds and start no mpirun; a minute
	"$(BIN)/pytest" -n auto --dist worksteal -m "not slow and not mpi"

lint: setup  ## check rules and formatting with ruff
	"$(BIN)/ruff" check
	"$(BIN)/ruff" format --check

types: setup  ## check types with mypy, strict
	"$(BIN)/mypy"

# Idle processes take tests from busy ones, and tests of a module, which share kernels and fixtures, stay together. One
# more process than cores: a test in seven waits, for a timeout or a scheduler.
unit: setup  ## run the tests; MPI tests start mpirun themselves
	"$(BIN)/pytest" -n $$(( $$(nproc) + 1 )) --dist worksteal

# Plain Python checks the bounds of arrays, too.
uncompiled: setup  ## run the kernel tests without compilation, as plain Python
	NUMBA_DISABLE_JIT=1 "$(BIN)/pytest" -n auto --dist worksteal -m "kernel and not large"

# Its kernels are not compiled yet: tests of a file share a process, so that few are compiled twice.
checked: setup  ## run the kernel tests that are too large for plain Python with array bounds checking
	NUMBA_BOUNDSCHECK=1 "$(BIN)/pytest" -n auto --dist loadfile -m large

test-faults: setup  ## inject faults (kills, errors, missing files, full disks) and show the outcomes; some minutes
	@PYTHONPATH="$(CURDIR):$(CURDIR)/tests" "$(BIN)/python" -m faults

docs: setup  ## build the reference of the public names from their docstrings into build/docs
	"$(BIN)/pdoc" mpitune --output-directory build/docs

format: setup  ## format the code
	"$(BIN)/ruff" check --select I --fix
	"$(BIN)/ruff" format

bench: setup  ## run the benchmarks of tests/bench
	@for script in $(sort $(wildcard tests/bench/*.py)); do echo "== $$script"; "$(BIN)/python" $$script || exit 1; done

clean:  ## remove caches and build products, but not .venv
	rm -rf build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find mpitune tests -name __pycache__ -prune -exec rm -rf {} +
