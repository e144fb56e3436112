# Everything goes to .venv (the project) and .tools (uv) in this checkout.
PYTHON ?= python3
VENV   := .venv
TOOLS  := .tools
UV     := $(TOOLS)/bin/uv
BIN    := $(VENV)/bin

export UV_PYTHON := $(CURDIR)/$(VENV)/bin/python
export UV_PYTHON_DOWNLOADS := never
export UV_LINK_MODE := copy
# A user without a home directory of their own (a service account, CI) keeps the downloads here.
ifneq ($(shell test -w "$$HOME" && echo yes),yes)
export UV_CACHE_DIR  := $(CURDIR)/$(TOOLS)/cache
export PIP_CACHE_DIR := $(CURDIR)/$(TOOLS)/cache/pip
endif

.PHONY: help install lock demo kills footprint bench-markets bench-policies bench-providers docker-check test lint format types check clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

install: $(VENV)/.ok ## install into .venv

$(UV):
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements/uv.txt

$(VENV)/.ok: requirements/dev.txt pyproject.toml | $(UV)
	test -x $(BIN)/python || $(PYTHON) -m venv --without-pip $(VENV)
	$(UV) pip sync -q --require-hashes --only-binary :all: requirements/dev.txt
	$(UV) pip install -q --no-deps --no-build-isolation --offline -e .
	touch $@

LOCK := $(UV) pip compile -q --universal --python-version 3.11 --generate-hashes --no-annotate --custom-compile-command "make lock"
lock: $(UV) ## resolve requirements/*.in into hashed requirements/*.txt
	cd requirements && for name in uv build agent service dev; do ../$(LOCK) $$name.in -o $$name.txt; done

demo: install ## the main job, end to end, on three local clouds
	$(BIN)/corral demo

kills: install ## kill -9 of the service at 20 seeded moments of the demo's scenario (SEED=n, MOMENTS=n)
	$(BIN)/python -m bench.kills $(if $(SEED),--seed $(SEED)) $(if $(MOMENTS),--moments $(MOMENTS))

bench-markets: install ## every policy on recorded spot markets (MARKETS=folder, POLICY=name)
	@test -d "$(MARKETS)" || { echo "bench-markets: MARKETS='$(MARKETS)' is no folder; give that of recorded markets, MARKETS=/path/to/markets" >&2; exit 2; }
	$(BIN)/corral backtest "$(MARKETS)" --optimum --policy $(or $(POLICY),all)

bench-policies: install ## how long a decision takes among 50,000 offers (JSON=1 for JSON)
	$(BIN)/python -m bench.policies $(if $(JSON),--json)

bench-providers: install ## what it costs to read all that each cloud sells (JSON=1 for JSON)
	$(BIN)/python -m bench.providers $(if $(JSON),--json)

docker-check: ## the Dockerfile's steps without an engine; needs root and debootstrap (LEND=paths that RUN needs)
	$(PYTHON) deploy/docker_check.py $(foreach path,$(LEND),--lend $(path))

footprint: install ## time to ready, memory and idle CPU of the service, without and with three clouds
	$(BIN)/python -m bench.footprint
	$(BIN)/python -m bench.footprint_clouds

test: install ## all tests
	$(BIN)/python -m pytest -n 2 --dist worksteal

lint: install ## ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: install ## rewrite the sources in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: install ## mypy --strict
	$(BIN)/mypy

check: lint types test ## everything that CI runs

clean: ## remove what was installed
	rm -rf $(VENV) $(TOOLS)
