# Everything needs Python 3.11 or newer with pip; the first target called sets up .venv, later ones start at once.
PYTHON ?= python3
BIN := .venv/bin
# One thread a process: the tests and jobs that run side by side would fight for the cores.
export OMP_NUM_THREADS ?= 1

.PHONY: demo test test-long lint format reference clean

demo: .venv/ready ## train, evaluate and draw the embedded default study
	$(BIN)/snakemake
	@echo "Done. Open results/index.html in a browser."

test: .venv/ready
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m "not long" tests

test-long: .venv/ready
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m long tests

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/snakefmt --check Snakefile rules
	$(BIN)/python tests/workflow/lint.py

format: .venv/ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/snakefmt Snakefile rules

reference: .venv/ready ## rewrite the JSON schema and the configuration's reference page from the typed model
	$(BIN)/python -m trueneg.study.reference config/schema.json docs/configuration.md

.venv/ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "TrueNeg needs Python 3.11 or newer, found " + sys.version.split()[0] + "; name one with make PYTHON=...")'
	$(PYTHON) -m venv .venv
	@echo "Installing TrueNeg and what it needs (PyTorch is large: a few minutes)."
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

clean: ## remove the environment, not the results
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis
