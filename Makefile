# `make demo` and `make test` need Rust, git and make, and nothing typed before them.

CARGO ?= cargo

# How many tests run at once without cargo-nextest; with it .config/nextest.toml says so. Tests mostly wait, so this is not the
# number of processors: four at once keep two of them busy. A build has as many jobs as cargo gives it.
export RUST_TEST_THREADS ?= 4

# Where `make install` puts things; DESTDIR stands in front of it, for packages.
PREFIX ?= /usr/local
UNITDIR ?= $(PREFIX)/lib/systemd
DESTDIR ?=

.PHONY: help demo demo-fleet site check hooks test test-more test-all python protocol-check tutorial bench proofs model rows stress syscalls fuzz soak lint tools more-tools dist dist-check release-check install uninstall

help:
	@echo 'make demo   build, and watch an agent skip a claimed database and resume'
	@echo 'make demo-fleet   one claim for three machines on an etcd of three nodes, whose leader is killed in its middle'
	@echo 'make check  rustfmt, clippy and the unit tests, for every commit; make hooks has git run it before each'
	@echo 'make test   every promise, of the long proofs a part that SEED=… repeats; installs what the tests need where it may'
	@echo 'make test-more   what takes a browser, Prometheus, tmux, zsh, fish, mandoc, shellcheck or shfmt; make test-all is both'
	@echo 'make proofs   the long proofs whole, one after the other: model tutorial rows stress syscalls soak fleet records'
	@echo 'make python   the Python half of make test'
	@echo 'make protocol-check   each row of docs/protocols and docs/fleet.md, and whether its test passes; PROTOCOL=… names pages'
	@echo 'make tutorial   the code of docs/adding-a-protocol.md, compiled and tested in a copy'
	@echo 'make bench  what it costs, beside bare system calls and beside flock, jq and filelock; BENCH=… names parts'
	@echo 'make model  the protocol as a state machine, with more at once than in make test'
	@echo 'make rows   every row of the tables of which make test tries one in four'
	@echo 'make stress  STRESS_ROUNDS (100000) of eight contenders for one stale lock, beside the obvious way; a tenth as often each other kind of lock, and a tool with its own'
	@echo 'make syscalls   every command killed at every system call, and every call to files failing'
	@echo 'make soak   SOAK_MINUTES (5) each: two clones among people; three among programs and kills (10); 200 databases among holders; 10000 in one agent (10)'
	@echo 'make fuzz   hostile input: FUZZ_SECONDS (30) a target with cargo-fuzz, else a million cases each'
	@echo 'make site   README and docs as a site with search, by mdBook'
	@echo 'make lint   rustfmt, clippy and rustdoc, warnings denied; shellcheck, shfmt and ruff where they are there'
	@echo 'make release-check   what docs/releasing.md asks for before a tag'
	@echo 'make install   the programs, systemd units, shell libraries, samples and documents, below PREFIX=$(PREFIX); make uninstall'
	@echo 'make dist   the artefacts of a release; make dist-check tries each in a clean place, and prints one table; DIST_PARTS=… names parts'

demo:
	@$(CARGO) build --locked --workspace --bin beadlock --bin beadlock-agent
	@target=$$(scripts/target-dir.sh) && BEADLOCK_BIN="$$target/debug" scripts/demo.sh

# README and docs as a site with search.
site:
	@scripts/site.sh

# Needs etcd and etcdctl; a minute.
demo-fleet:
	@$(CARGO) build --locked --workspace --bin beadlock --bin beadlock-agent
	@target=$$(scripts/target-dir.sh) && BEADLOCK_BIN="$$target/debug" scripts/demo-fleet.sh

# Installs nothing. tests/README.md has a table of what runs where.
check:
	@scripts/lint-tools.sh
	$(CARGO) fmt --all --check
	$(CARGO) fmt --manifest-path integration/python/Cargo.toml --check
	$(CARGO) clippy --locked --workspace --all-targets -- --deny warnings
	$(CARGO) clippy --locked --workspace --test more -- --deny warnings
	@CARGO="$(CARGO)" scripts/test.sh unit

hooks:
	@scripts/hooks.sh

# Each suite to its end, whatever fails, and one summary. `make test SEED=…` repeats the dice of a run.
test: export SEED ?=
test: tools
	@CARGO="$(CARGO)" scripts/test.sh test

# The test targets `more`, which cargo runs only when they are named.
test-more: more-tools
	@CARGO="$(CARGO)" scripts/test.sh more

# The second also where the first has failed.
test-all:
	@failed=; for size in test test-more; do $(MAKE) --no-print-directory $$size || failed="$$failed $$size"; done; \
		[ -z "$$failed" ] || { echo "make test-all: failed:$$failed"; exit 1; }

# What make test tries in part. More than an hour on two cores.
proofs: model site tutorial rows stress syscalls soak fleet records

# Merges of record files: clones with histories and hostile files, so many of each; and 600 runs of the model of two
# clones, programs and kills. Two minutes on two cores.
.PHONY: records
records: export PROPTEST_CASES ?= 30000
records:
	$(CARGO) test --locked --release --package beadlock-records --test records -- --nocapture
	PROPTEST_CASES=600 $(CARGO) test --locked --release --package beadlock-git --lib model -- --nocapture

# Claims of several machines beside their agents, while processes, nodes and networks fail at random: by the library, and by
# the programs. Of these 100 claims take two minutes on two cores.
.PHONY: fleet
fleet: export FLEET_ROUNDS ?= 3000
fleet: export FLEET_CLAIMS ?= 3000
fleet: tools
	$(CARGO) test --locked --package beadlock-tests --test fleet -- random --nocapture

# Every row of the tables of the git action, and every square of the races.
rows: export ROWS_STRIDE ?= 1
rows: export RACES_STRIDE ?= 1
rows: tools
	$(CARGO) test --locked --package beadlock-tests --test git --test rows --test races

# The package in integration/python: `pip install` into an environment below the target directory, and its tests there.
python: tools
	@scripts/python.sh

# Runs the tests that the rows name, prints the rows that were not shown, and one line for each page.
protocol-check: export PROTOCOL ?=
protocol-check: tools
	@$(CARGO) run --locked --quiet --package xtask -- protocol-check $(PROTOCOL)

# Adds the toy protocol of docs/adding-a-protocol.md to a copy of the tracked files, and runs its tests. The copy and its build
# stay below the target directory for the next run.
tutorial: tools
	@CARGO="$(CARGO)" scripts/tutorial.sh

# Prints one table, and writes its rows to limits.json in the target directory. `make bench BENCH='calls programs'`.
# `make bench BENCH_DOCS=docs` also puts the run and its plots into docs/performance.md.
bench: export BENCH_DOCS ?=
bench:
	$(CARGO) bench --locked --package beadlock-tests --bench limits -- $(BENCH)

# Prints each group with its states, and each counterexample. About three minutes on one core.
model:
	$(CARGO) test --locked --package beadlock-model --test model -- --include-ignored --nocapture --test-threads 1

# Prints a table, ours and the obvious way in the same rounds, and lines for a named lock, a directory's, one at a path and a
# tool's. Some fifty minutes on two cores.
stress: export STRESS_ROUNDS ?= 100000
stress: tools
	$(CARGO) test --locked --package beadlock-tests --test stress -- --nocapture --test-threads 1

# Every call; in `make test` some of them, others each time. Prints one row for each command; the last one is the
# control, which must fail. Some fifty minutes on two cores. `SYSCALL_STRIDE=20 SYSCALL_SEED=…` repeats a part. The syncs
# have a process of their own: the others' adopts orphans, and theirs would be thousands.
syscalls: export SYSCALL_STRIDE ?= 1
syscalls: tools
	$(CARGO) test --locked --package beadlock-tests --test crash -- --nocapture --skip sync::
	$(CARGO) test --locked --package beadlock-tests --test crash sync:: -- --nocapture
	$(CARGO) test --locked --package beadlock-tests --test file crash:: -- --nocapture --test-threads 1

# Bounded, and each run says its seed: `make soak SOAK_MINUTES=30 SOAK_SEED=…`.
# In `make test` the second has a minute, the third 30 seconds, and the last 20.
soak: tools
	SOAK_MINUTES=$(or $(SOAK_MINUTES),5) $(CARGO) test --locked --package beadlock-tests --test git convergence -- --nocapture --test-threads 1 --skip three_clones
	SOAK_MINUTES=$(or $(SOAK_MINUTES),10) $(CARGO) test --locked --package beadlock-tests --test git three_clones -- --nocapture
	SOAK_MINUTES=$(or $(SOAK_MINUTES),5) $(CARGO) test --locked --package beadlock-tests --test soak -- --nocapture
	SOAK_MINUTES=$(or $(SOAK_MINUTES),10) $(CARGO) test --locked --package beadlock-tests --test many databases -- --nocapture

# What reads hostile input, for FUZZ_SECONDS each; without cargo-fuzz or a compiler that lets it, at random.
fuzz: export FUZZ_SECONDS ?= 30
fuzz:
	@scripts/fuzz.sh

# Programs that some tests start. Never fails: a test whose program is missing says so and is skipped,
# or fails where CI is set.
tools:
	@scripts/test-tools.sh test

more-tools:
	@scripts/test-tools.sh test more

lint:
	@scripts/lint-tools.sh
	$(CARGO) fmt --all --check
	$(CARGO) fmt --manifest-path integration/python/Cargo.toml --check
	$(CARGO) clippy --locked --workspace --all-targets -- --deny warnings
	$(CARGO) clippy --locked --workspace --test more -- --deny warnings
	$(CARGO) clippy --locked --workspace --features beadlock/validate-schema,beadlock-cli/validate-schema --lib --test schema -- --deny warnings
	$(CARGO) check --locked --package beadlock-cli --package beadlock-agent --no-default-features
	target=$$(scripts/target-dir.sh) && CARGO_TARGET_DIR="$$target" PYO3_NO_PYTHON=1 PYO3_BUILD_EXTENSION_MODULE=1 \
		$(CARGO) clippy --locked --manifest-path integration/python/Cargo.toml -- --deny warnings
	@scripts/fuzz-lock.sh
	RUSTDOCFLAGS='--deny warnings' $(CARGO) doc --locked --workspace --no-deps --features beadlock/validate-schema,beadlock-cli/validate-schema
	@scripts/lint-scripts.sh --if-there
	@if $(CARGO) deny --version >/dev/null 2>&1; then $(CARGO) deny --locked check bans licenses sources; \
		else echo 'no cargo-deny here, so deny.toml is not asked; make test reads the licences'; fi

# An hour and more.
release-check:
	@scripts/release-check.sh

install uninstall: export PREFIX := $(PREFIX)
install uninstall: export UNITDIR := $(UNITDIR)
install uninstall: export DESTDIR := $(DESTDIR)

# With BEADLOCK_BIN the programs there, as they are; else a release is built.
install:
	@[ -n "$$BEADLOCK_BIN" ] || BEADLOCK_REVISION="$${BEADLOCK_REVISION:-$$(scripts/revision.sh)}" \
		$(CARGO) build --locked --release --package beadlock-cli --package beadlock-agent --bins
	@[ -n "$$BEADLOCK_BIN" ] || BEADLOCK_BIN=$$(scripts/target-dir.sh)/release && export BEADLOCK_BIN && \
		scripts/install.sh install

uninstall:
	@scripts/install.sh uninstall

# The artefacts of a release, below the target directory, and each tried in a clean place. From nothing a quarter of an hour on
# two cores each: the check builds the programs a second time. `make dist DIST_PARTS='programs packages'`.
dist:
	@scripts/dist.sh $(DIST_PARTS)

dist-check:
	@scripts/dist-check.sh $(DIST_PARTS)
