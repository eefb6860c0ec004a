# All targets need Python 3.11 or newer with pip. The first one that you run sets up .venv; later ones start at once. With PyTorch's CPU build in .venv
# (README.md), that is kept.
PYTHON ?= python3
BIN := .venv/bin
PLUGINS := .venv/cluster
OLDEST ?= .venv/oldest
ALONE ?= .venv/alone
CONSTRAINTS ?= envs/constraints.txt
# One thread per process: otherwise, tests and jobs that run in parallel would compete for the cores.
export OMP_NUM_THREADS ?= 1
# Keep bytecode caches even if the user has disabled them: the tests start hundreds of processes that would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo install test test-long mutants test-studies test-cluster test-oldest test-alone lint format reference golden constraints docs clean

demo: .venv/pipeline ## train, evaluate and draw the default studies
	$(BIN)/snakemake --forcerun page # even if everything is up to date: Snakemake prints the answers only after a job
	@echo "Done. Open results/index.html in a browser."

install: .venv/networks ## the pipeline with pretrained networks of timm, open_clip and sentence-transformers

test: .venv/ready
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not long and not studies" tests

test-long: SEED := $(shell date +%s)
test-long: .venv/ready ## the long tests, and the property tests with new examples in every run
	@echo "Random inputs of this run: make test-long SEED=$(SEED)"
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "long or hypothesis" --hypothesis-profile=explore --hypothesis-seed=$(SEED) tests

mutants: .venv/ready ## the tests nearest to each of the mutations in tests/mutants/mutants.yaml; FILES="losses/anchors ..." for some
	$(BIN)/python -m tests.mutants $(FILES)

test-studies: .venv/ready ## every shipped study in miniature, from its source to the page; or STUDIES="config/config.yaml ..."
	STUDIES="$(STUDIES)" $(BIN)/python -m pytest -s -m studies tests/miniature

test-cluster: .venv/ready $(PLUGINS)/ready ## the cluster tests, on their own one-node Slurm; needs root, and apt-get install slurm-wlm munge iproute2
	PYTHONPATH="$(CURDIR)/$(PLUGINS)" $(BIN)/python -m pytest -rs tests/cluster

test-oldest: $(OLDEST)/ready ## tests that take a few minutes, with the oldest supported versions (tests/oldest.txt) in a separate environment
	$(OLDEST)/bin/python -m pytest -m "not long and not studies" -p no:cacheprovider tests/config tests/store tests/stats tests/report \
		tests/losses/test_estimators.py tests/losses/test_contrastive.py tests/losses/test_cross_modal.py \
		tests/losses/test_own_loops.py tests/losses/test_fsdp.py tests/test_examples.py tests/data tests/models --ignore=tests/models/towers # an extra

test-alone: $(ALONE)/ready ## tests of the losses with nothing but the oldest supported PyTorch, in a separate environment
	$(ALONE)/bin/python -m pytest -m "not long" -p no:cacheprovider --noconftest tests/losses/pytorch_alone.py tests/losses/test_real_use.py \
		tests/losses/test_registry.py tests/losses/test_forms.py tests/losses/test_state.py tests/losses/test_distributed.py \
		tests/losses/test_documentation.py --deselect "tests/losses/test_documentation.py::test_every_example_of_a_docstring_runs[trueneg.class_probability]" # arrays

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/snakefmt --check Snakefile rules
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m mypy
	$(BIN)/snakemake --lint

format: .venv/ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/snakefmt Snakefile rules

reference: .venv/ready ## rewrite the JSON schema and the configuration's reference page from the typed model
	$(BIN)/python -m trueneg.config.reference config/schema.json docs/configuration.md

golden: .venv/ready ## record the golden results of code whose VERSION was raised; refuses other changes (CONTRIBUTING.md)
	$(BIN)/python -m tests.golden.rewrite

constraints: .venv/ready ## renew the exact versions that are installed
	$(BIN)/uv pip compile --quiet --universal --upgrade --python-version 3.11 --no-annotate --no-header --all-extras pyproject.toml \
		--output-file .venv/constraints.txt
	{ head -1 envs/constraints.txt; cat .venv/constraints.txt; } > .venv/renewed.txt
	mv .venv/renewed.txt envs/constraints.txt

docs: .venv/docs ## build the documentation as a site, in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "Done. Open site/index.html in a browser; for its search: $(BIN)/mkdocs serve."

.venv/docs: .venv/ready
	$(call install,docs)
	@touch $@

# uv needs about a third of pip's time. Where it cannot reach the packages, as behind a mirror that only pip's configuration names, pip installs them.
# Its cache is inside of .venv, so that files are linked, not copied.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
define install
	$(BIN)/uv pip install --quiet --python $(BIN)/python --cache-dir .venv/cache --constraint $(CONSTRAINTS) --editable '.[$(1)]' \
		|| $(PIP) --constraint $(CONSTRAINTS) --editable '.[$(1)]'
	@rm -rf .venv/cache
endef

.venv/ready: .venv/pipeline
	$(call install,dev)
	@touch $@

.venv/networks: .venv/pipeline
	$(call install,pretrained)
	@touch $@

.venv/pipeline: pyproject.toml $(CONSTRAINTS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "TrueNeg needs Python 3.11 or newer, found " + sys.version.split()[0] + "; name one with make PYTHON=...")'
	$(PYTHON) -m venv .venv
	@echo "Installing TrueNeg and what it needs (PyTorch is large: a few minutes)."
	$(PIP) uv || true
	$(call install,pipeline)
	@touch $@

$(OLDEST)/ready: pyproject.toml tests/oldest.txt
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check --constraint tests/oldest.txt --editable '.[pipeline]' \
		hypothesis mpmath pytest statsmodels
	@touch $@

$(ALONE)/ready: pyproject.toml tests/oldest.txt
	$(PYTHON) -m venv $(ALONE)
	$(ALONE)/bin/python -m pip install --quiet --disable-pip-version-check --constraint tests/oldest.txt --editable . pytest
	@touch $@

# Outside the environment: with the Slurm plugin in it, every call of Snakemake would look for Slurm, which takes seconds if none answers.
$(PLUGINS)/ready: Makefile | .venv/ready
	$(PIP) --constraint $(CONSTRAINTS) --no-deps --upgrade --target $(PLUGINS) \
		snakemake-executor-plugin-slurm snakemake-executor-plugin-slurm-jobstep snakemake-executor-plugin-cluster-generic throttler
	@touch $@

clean: ## remove the environment, not the results
	rm -rf .venv site .pytest_cache .ruff_cache .hypothesis
