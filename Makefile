# `make` lists what there is to do.

PYTHON := .venv/bin/python
# Stamps of installed packages: those that every command needs, and those of some options and of the tests.
NEEDED := .venv/.needed
EXTRAS := .venv/.extras
# Modules that a build script lists: cargo fmt does not find them.
PARTS := $(wildcard crates/kernel/src/parts/*/*.rs)

.DEFAULT_GOAL := help
.PHONY: help bootstrap extras engine build demo checked engine-checked clippy test test-long golden wheel package wheels gallery look moonshot bench scaling lint format docs notebooks site clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' Makefile

bootstrap: ## check the tools mmulab is built with; as root on Debian, install missing ones
	@scripts/bootstrap.sh

$(NEEDED): pyproject.toml | bootstrap
	test -x $(PYTHON) || python3 -m venv .venv
	$(PYTHON) -m pip install -q --disable-pip-version-check $$(python3 scripts/requirements.py dependencies)
	touch $@

$(EXTRAS): $(NEEDED)
	$(PYTHON) -m pip install -q --disable-pip-version-check $$(python3 scripts/requirements.py dev)
	touch $@

extras: $(EXTRAS) ## install the Python packages that sweeps, mosaics, leshy's optimum and the tests need

# Python's packages come over the network while the compiler works.
engine: | bootstrap
	scripts/native.sh release python/mmulab

build: ## build the engine, the recorder and the Python package into .venv
	@$(MAKE) --no-print-directory -j 2 $(NEEDED) engine
	$(PYTHON) scripts/link.py

demo: build ## record a real compiler at work, study it, and end with the table and the report's path
	@scripts/demo.sh

engine-checked: | bootstrap
	rm -rf checked
	mkdir checked
	cp -r python/mmulab checked/mmulab
	rm -rf checked/mmulab/_lib checked/mmulab/_core*.so
	scripts/native.sh dev checked/mmulab

checked: ## build into checked/ a package that checks its arithmetic and assertions, for tests
	@$(MAKE) --no-print-directory -j 2 $(EXTRAS) engine-checked
	$(PYTHON) scripts/link.py

test: checked ## build and test everything, with checked arithmetic
# No comment has code that runs. Rustdoc would take a minute to find that out, crate by crate. All of the workspace is
# named, for with fewer crates their dependencies have fewer features, and every crate would be compiled a second time.
	cargo test --workspace --tests
	PYTHONPATH=$(CURDIR)/checked $(PYTHON) -m pytest -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder --durations 20

test-long: checked ## run the tests that `make test` has a short sample of: all machines and policies explained, the guide as it stands
	PYTHONPATH=$(CURDIR)/checked $(PYTHON) -m pytest -m long -n auto --maxprocesses 4

golden: build ## hold all machines under all policies against the results in tests/golden.txt
	$(PYTHON) scripts/golden.py

wheel: $(EXTRAS) ## build a wheel into build/wheel, and try it outside the checkout as another user (10 minutes)
	$(PYTHON) -m pip wheel -q --disable-pip-version-check --no-deps -w build/wheel .
	scripts/check_wheel.sh build/wheel/mmulab-*.whl

package: checked ## pack what `make checked` built as a wheel, and try it outside the checkout as another user (2 minutes)
	PATH=$(CURDIR)/.venv/bin:$$PATH $(PYTHON) -m pip wheel -q --disable-pip-version-check --no-build-isolation --no-deps \
		--config-settings=profile=dev -w build/package .
	scripts/check_wheel.sh build/package/mmulab-*.whl

wheels: build $(EXTRAS) ## build manylinux wheels for x86-64 and aarch64 into build/wheels, and try both (an hour and more; needs gcc-aarch64-linux-gnu)
	scripts/wheels.sh build/wheels
	scripts/check_wheel.sh build/wheels/mmulab-*_x86_64.whl
	scripts/check_wheel_arm.sh build/wheels/mmulab-*_aarch64.whl

gallery: build ## study programs that people run: docs/gallery.md, and their reports in docs/gallery
	$(PYTHON) scripts/gallery.py

look: ## show the gallery's reports at three widths, light and dark, to axe-core (needs chromium and npm): build/look
	npm install --silent --no-save --prefix build/look axe-core@4
	node scripts/look.mjs build/look docs/gallery/*.html

moonshot: build ## build Linux with CoalaPaging and compare its page tables with the simulated ones (GPL-2.0, moonshot/)
	moonshot/run

bench: ## print references per second: a bare loop, TLBs alone, whole machines, shader cores, a compiler's recording, cores in time
	cargo bench -q -p mmulab-machine --bench speed
	cargo bench -q -p mmulab-trace
	cargo bench -q -p mmulab-reshape
	cargo bench -q -p mmulab-workload

scaling: $(EXTRAS) ## time a sweep on one and two workers, simulate it on many: docs/results/sweep-scaling.md
	$(PYTHON) scripts/sweep_scaling.py

clippy: | bootstrap
	cargo fmt --all --check
	rustfmt --check --edition 2024 $(PARTS)
	MAKEFLAGS= cargo clippy --workspace --all-targets -- -D warnings

lint: ## check format, lints and types
	@$(MAKE) --no-print-directory -j 2 $(EXTRAS) clippy
	.venv/bin/ruff check python scripts
	.venv/bin/ruff format --check python scripts
	.venv/bin/mypy

format: $(EXTRAS) ## format all code
	cargo fmt --all
	rustfmt --edition 2024 $(PARTS)
	.venv/bin/ruff format python scripts

docs: build ## write docs/reference from the code
	.venv/bin/mmulab docs docs/reference

notebooks: $(EXTRAS) ## execute the notebooks of docs/notebooks and keep their outputs
	$(PYTHON) scripts/notebooks.py

site: $(EXTRAS) ## build the documentation's site into build/site, with search: open build/site/index.html
	$(PYTHON) -m pip install -q --disable-pip-version-check $$(python3 scripts/requirements.py docs)
	NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build --strict -q
	@echo "the site: build/site/index.html (search needs a server: $(PYTHON) -m http.server -d build/site)"

clean: ## remove everything built
	cargo clean
	rm -rf .venv build checked python/mmulab/_lib python/mmulab/_core*.so
