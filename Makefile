# make run     builds everything into .venv and starts examples/ring.py on 4 ranks
# make test    sets up what the tests need and runs all of them
# make test-long  repeats tests with more MPI libraries, ranks, seeds and checks, which takes minutes
# make test-newest DIR=/some/directory  runs the MPI and launch tests with Debian's newest suite (root, debootstrap)
# make fuzz    looks for inputs that harm the transport; SECONDS=600 says how long
# make hostile sends messages that a hostile user could to daemons of its own, for SECONDS=600,
#              and packets of clients that lie to a launch server, for as long
# make kills   sends random signals to processes of daemons and of two users' jobs, COUNT=1000 times,
#              and as often to a launch server and what is around it
# make bench   measures launches, daemons, MPI, output and the transport beside others; writes bench/RESULTS.md
# make clean   removes what the others made
#
# PYTHON names the interpreter to use, 3.11 or later.

VENV := .venv
BIN := $(VENV)/bin
# What checks yod, and packages that drive it: they need others that a user's Python is without.
TOOLS := $(VENV)-tools
WORKERS ?= 2
SYSTEM_WORKERS ?= 4
SECONDS ?= 600
COUNT ?= 1000

# All that a change of which asks for a new build. Python modules do not: the
# installation points at this directory.
SOURCES := setup.py pyproject.toml docs/man.py native/transport/build_native.py native/Makefile \
           $(shell find native -name '*.[ch]' -o -name '*.map' -o -name '*.mk')

# Python keeps what it has compiled, also where it is told not to: many start it here.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: run test test-long test-newest check needed compiled pytest fuzz hostile kills bench clean build

run: $(VENV)/.installed
	PATH="$(CURDIR)/$(BIN):$$PATH" yod -sz 4 python examples/ring.py

build: $(VENV)/.installed

test: $(VENV)/.installed-test
	$(MAKE) --no-print-directory -j3 needed check compiled
	$(MAKE) --no-print-directory pytest

# It waits for the network.
needed:
	tests/setup

# All tests are read once here, beside the checks, which take one core; else each worker
# would compile them anew. What is wrong with them is said by the tests' own run.
compiled:
	-@$(BIN)/pytest --collect-only -qq >/dev/null

check: $(TOOLS)/.installed
	$(TOOLS)/bin/ruff check .
	$(TOOLS)/bin/ruff format --check .
	$(TOOLS)/bin/mypy

SYSTEM_TESTS := PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/pytest -m 'system and not long' tests/system

# The first needs no privilege and computes: a worker a core. The second starts real processes
# and mostly waits for them: two workers a core. A worker has its share of the tests in their
# order, so that it uses its partitions and programs again, and takes what another has left
# at the end. What has failed there beside other tests runs once more, alone, and is listed; what
# fails again ends the run.
pytest:
	$(BIN)/pytest -n $(WORKERS) --dist worksteal
	$(SYSTEM_TESTS) -n $(SYSTEM_WORKERS) --dist worksteal || { [ $$? = 1 ] && \
	    echo 'These have failed beside other tests. Once more, alone:' && \
	    $(SYSTEM_TESTS) --last-failed --last-failed-no-failures none --maxfail 1 --verbose; }

test-long: $(VENV)/.installed-test $(TOOLS)/.installed
	tests/setup
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/pytest -m long

# The first run makes a root directory of that suite in DIR; see tests/newest.
test-newest: $(BIN)/python
	tests/newest "$(DIR)"

# What it finds is left in tests/fuzz/found, what reaches new code in tests/fuzz/new.
fuzz: $(VENV)/.installed-test
	tests/setup
	$(BIN)/python -m tests.fuzz.targets $(SECONDS)

# The seed is told first; python -m tests.fuzz.hostile SECONDS SEED repeats an attack.
hostile: $(VENV)/.installed-test
	tests/setup
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m tests.fuzz.hostile $(SECONDS)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m tests.fuzz.hostile_clients $(SECONDS)

# The seed is told first here, too.
kills: $(VENV)/.installed-test
	tests/setup
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m tests.fuzz.kills $(COUNT)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m tests.fuzz.server_kills $(COUNT)

bench: $(VENV)/.installed-test
	tests/setup
	bench/setup
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python bench/launch.py --write bench/RESULTS.md
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python bench/rate.py --write bench/RESULTS.md
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python bench/steps.py --write bench/RESULTS.md
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python bench/batch.py --write bench/RESULTS.md
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python bench/checkpoint.py --write bench/RESULTS.md
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python bench/queue_list.py --write bench/RESULTS.md
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python bench/deciding.py --write bench/RESULTS.md
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python bench/daemons.py --write bench/RESULTS.md
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python bench/nodes.py --write bench/RESULTS.md
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python bench/pingd.py --write bench/RESULTS.md
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python bench/hosts.py --write bench/RESULTS.md
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python bench/announcing.py --write bench/RESULTS.md
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python bench/mpi.py --write bench/RESULTS.md
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python bench/relay.py --write bench/RESULTS.md
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python bench/transport.py --write bench/RESULTS.md
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python bench/ensemble.py --write bench/RESULTS.md

clean:
	rm -rf $(VENV) $(TOOLS) $(VENV)-openmpi $(VENV)-impi $(VENV)-wheels build dist *.egg-info
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	if [ -e native/Makefile ]; then $(MAKE) -C native clean; fi

$(BIN)/python:
	@set -e; \
	for python in $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11; do \
	    if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	        $$python -m venv $(VENV) && exit 0; \
	        rm -rf $(VENV); \
	        echo "$$python has no working venv module (Debian: apt install python3-venv python3-dev)" >&2; \
	        exit 1; \
	    fi; \
	done; \
	echo "Python 3.11 or later is needed; name it with: make PYTHON=/path/to/python3" >&2; \
	exit 1

$(VENV)/.installed $(VENV)/.installed-test: $(BIN)/python $(SOURCES)
	@command -v cc >/dev/null || \
	    { echo "a C compiler is needed (Debian: apt install gcc libc6-dev)" >&2; exit 1; }
	$(BIN)/pip install --quiet --editable '.[$(EXTRAS)]'
	touch $(VENV)/.installed $@

# It sees what is installed for yod, and yod does not see it.
$(TOOLS)/.installed: $(VENV)/.installed-test
	$(BIN)/python -m venv --without-pip $(TOOLS)
	$(BIN)/pip --python $(TOOLS)/bin/python install --quiet \
	    $$($(BIN)/python tests/support/extras.py check parsl psij)
	printf '%s\n' "$(CURDIR)" "$(CURDIR)"/$(VENV)/lib/python3.*/site-packages \
	    >"$$(echo $(TOOLS)/lib/python3.*/site-packages)/yod.pth"
	touch $@

$(VENV)/.installed: EXTRAS := mpi
$(VENV)/.installed-test: EXTRAS := mpi,test
