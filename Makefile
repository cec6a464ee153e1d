# Everything sets itself up: `make serve` and `make test` work in a fresh clone with Python 3.11 or newer.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: help serve test test-slow check docs docs-serve clean
.DEFAULT_GOAL := help

help:
	@echo "make serve   serve the zoo at http://127.0.0.1:8000 (installs the slim server environment)"
	@echo "make test    run the tests (installs the full environment); make test-slow runs those that are marked slow"
	@echo "make check   lint, formatting, types, import contracts"
	@echo "make docs    the documentation as a site, in site/; make docs-serve shows it while it is written"
	@echo "make clean   remove the environment"

serve: .venv/serve.stamp
	$(BIN)/python -m serve $(ARGS)

# The whole suite but for what is marked slow on the default backend, then what must hold on every backend on the others.
test: .venv/dev.stamp
	TF_CPP_MIN_LOG_LEVEL=3 $(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile -m "not slow" $(ARGS)
	KERAS_BACKEND=jax $(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile tests/backends
	@if $(BIN)/python -c "import torch" 2>/dev/null; then \
	  KERAS_BACKEND=torch $(BIN)/python -m pytest tests/backends; \
	else echo "torch is not installed: its tests were left out"; fi

test-slow: .venv/dev.stamp
	TF_CPP_MIN_LOG_LEVEL=3 $(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile -m slow $(ARGS)

check: .venv/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: .venv/docs.stamp
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "Open site/index.html"

docs-serve: .venv/docs.stamp
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve --no-strict --dev-addr 127.0.0.1:8001

.venv/serve.stamp: serve/requirements.txt pyproject.toml | .venv/bin/pip
	$(BIN)/pip install --quiet --requirement serve/requirements.txt
	$(BIN)/pip install --quiet --no-deps --editable .
	@touch $@

.venv/dev.stamp: pyproject.toml serve/requirements.txt | .venv/bin/pip
	$(BIN)/pip install --quiet --editable ".[jax,dev,docs]"
	@touch $@ .venv/serve.stamp .venv/docs.stamp

# The server's slim environment is enough: nothing of the package that needs Keras is imported.
.venv/docs.stamp: pyproject.toml | .venv/serve.stamp
	$(BIN)/pip install --quiet $$($(BIN)/python -c "import tomllib; \
	  print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']['docs'])")
	@touch $@

.venv/bin/pip:
	@$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11))" || \
	  { echo "Python 3.11 or newer is needed; name it with: make PYTHON=python3.11 ..."; exit 1; }
	@$(PYTHON) -m venv .venv || \
	  { rm -rf .venv; echo "Debian keeps venv in a package of its own: apt-get install python3-venv"; exit 1; }
	@$(BIN)/python -m pip install --quiet --upgrade pip # Python 3.11's own takes three times as long over our dependencies

clean:
	rm -rf .venv
