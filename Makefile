# The Transformer by Hand. `make help` lists what can be made.
#
#   make book PYTHON=/path/to/python3.12    take this Python
#   make test VENV=/tmp/venv                keep the environment elsewhere

VENV ?= .venv
PYTHON ?=
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# The products here are small: one thread each is as fast as several on an idle machine, and many times faster
# on a busy one, where the threads wait for each other. Tests use two workers.
export OMP_NUM_THREADS ?= 1
PYTEST := $(BIN)/python -m pytest -n 2
NOTEBOOKS := $(filter-out %.mine.ipynb,$(wildcard notebooks/*.ipynb notebooks/*/*.ipynb))

# What every page depends on. If it is as in the last build that went well, only pages that changed are read again.
FRAME := _config.yml _toc.yml constraints.txt $(wildcard book/*.yml book/*.json book/*.bib book/_*/*.* src/handgrad/course/*.py)

.DEFAULT_GOAL := help
.PHONY: help book test bench times site pdf lab progress exercises chapter lint format clean

help: ## Show this list
	@awk -F ': .*## ' '/^[a-z]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

book: $(READY) ## Execute the notebooks and build the book; any warning is an error
	@cat $(FRAME) | cksum | cmp -s - _build/frame || rm -rf _build/html _build/.doctrees _build/jupyter_execute
	@rm -f _build/frame
	$(BIN)/jupyter-book build -W -n --keep-going --all .
	@cat $(FRAME) | cksum > _build/frame
	@echo
	@echo "The book is built. Open it:   file://$(CURDIR)/_build/html/index.html"
	@echo "or serve it:                  $(BIN)/python -m http.server --directory _build/html 8000"
	@echo "and visit                     http://localhost:8000"

test: lint ## Run every notebook with nbval, solved and unsolved, and check the package
	$(PYTEST) --nbval --dist loadfile --no-loadscope-reorder notebooks
	$(PYTEST) --dist worksteal -m "not site" tests

bench: $(READY) ## Record speed, ideas and memory, on an idle machine; trainings: python -m benchmarks.translate, .classify, .language_model
	$(BIN)/python -m benchmarks --all

times: $(READY) ## Say how long each page took in the last make book
	$(BIN)/python tools/times.py

site: $(READY) ## Look at the built book in a browser (needs Chromium, and make book)
	@test -e _build/html/index.html || { echo "There is no book in _build/html: make book builds it." >&2; exit 1; }
	HANDGRAD_SITE=_build/html $(PYTEST) --dist worksteal -m site tests

pdf: $(READY) ## Print the built book into one PDF (needs Chromium, and make book); one chapter: make pdf N=9
	$(BIN)/python tools/pdf.py $(if $(N),--only $(N))

lab: $(READY) ## Open the notebooks in JupyterLab, in lab/, which is yours
	$(BIN)/python tools/lab.py
	$(BIN)/jupyter lab --LabApp.app_settings_dir="$(CURDIR)/tools/lab_settings" lab

progress: $(READY) ## Say which exercises in lab/ are solved
	$(BIN)/python -m handgrad progress lab

exercises: $(READY) ## Make the exercise notebooks again; keep those with answers, unless FORCE=08_attention
	$(BIN)/python tools/exercises.py $(addprefix --force ,$(FORCE))

chapter: $(READY) ## Check one chapter, its exercises, tests and pages: make chapter N=08
	$(BIN)/python tools/chapter.py check "$(N)"

lint: $(READY) ## Check form: code, notebooks, exercises up to date
	$(BIN)/python tools/exercises.py --check
	$(BIN)/python tools/chapter.py checklist --check
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/python -m handgrad.course.rules $(NOTEBOOKS)

format: $(READY) ## Put code and notebooks in form
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean: ## Remove what was built; the environment in .venv stays
	rm -rf _build _ci .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -not -path "./$(VENV)/*" -prune -exec rm -rf {} +

# The environment, made again when one of these files changes.
$(READY): requirements.txt constraints.txt pyproject.toml
	@found=; python="$(PYTHON)"; \
	for candidate in $${python:-python3.11 python3.12 python3.13 python3}; do \
	    if $$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
	    then found=$$candidate; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	    if [ -n "$$python" ] && there=$$("$$python" --version 2>/dev/null); \
	    then echo "This book needs Python 3.11 or newer, and $$python is $$there." >&2; \
	    else echo "This book needs Python 3.11 or newer, and found none as $${python:-python3.11, 3.12, 3.13 or python3}." >&2; fi; \
	    echo "Install one, or name it: make book PYTHON=/path/to/python3.12" >&2; exit 1; \
	fi; \
	if ! $$found -c 'import ensurepip, venv' 2>/dev/null; then \
	    echo "$$found cannot make a virtual environment: its venv module is missing." >&2; \
	    echo "On Debian and Ubuntu: sudo apt-get install python3-venv" >&2; exit 1; \
	fi; \
	if [ ! -x $(BIN)/python ]; then \
	    echo "Making the environment $(VENV) with $$($$found --version): a few minutes, about 2 GB."; \
	    $$found -m venv $(VENV); \
	fi
	$(BIN)/python -m pip install -r requirements.txt -c constraints.txt
	@touch $@
