# Tidegate: one command each, on any machine that has Rust and Python 3.11 or newer.
# Everything is installed into .venv and target/ of this checkout; `make clean` removes both.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
# The first interpreter that is new enough and can make virtual environments. Override: make PYTHON=/path/to/python
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3.14 python3; do \
	$$p -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { echo $$p; break; }; done)
export PATH := $(PATH):$(HOME)/.cargo/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export CARGO_TERM_PROGRESS_WHEN ?= auto

RUST_SOURCES := $(shell find crates -name '*.rs' -o -name Cargo.toml 2>/dev/null) Cargo.toml Cargo.lock
RESULTS := results
# All crates are tested with the daemon, so that what they share is compiled once; that its core needs none of it, a check says.
DAEMON := tidegate-gateway/daemon
TESTED := --workspace --exclude tidegate-core --features $(DAEMON)
# With which profile of Cargo.toml the Python module is compiled, and what is tested. Where both are the same, what both need is compiled once.
PROFILE ?= release
CHECKED ?= dev

.PHONY: help run test reproduce bench bench-many bench-beside bench-cores bench-emulator bench-gateway bench-gateway-threads bench-gateway-alone bench-gateway-restarts bench-gateway-interop check-peers differential check-maxmin leave-one-out swarm torture mutants fuzz audit wheel sdist deb gateway-deb try-gateway-deb release-check readme-picture site site-links clean build tools

help: ## what can be made
	@echo "Tidegate. Targets:"
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' Makefile | expand -t 22

tools:
	@command -v cargo >/dev/null || { echo >&2 "cargo is missing. Install Rust: https://rustup.rs (Debian: apt install rustup && rustup default stable)"; exit 1; }
	@command -v cc >/dev/null || { echo >&2 "A C linker is missing. Install one (Debian: apt install gcc)"; exit 1; }
	@test -x $(BIN)/python || test -n "$(PYTHON)" || { echo >&2 "Python 3.11 or newer with venv is missing. Install it (Debian: apt install python3 python3-venv)"; exit 1; }

$(VENV)/.made:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q 'maturin>=1.9,<2'
	touch $@

# cargo decides what to compile again; these stamps only spare asking it when no source is newer. Who runs experiments needs less than
# who tests, and need not wait for that.
# What Python needs is fetched while cargo compiles: the first with these extras, then all together.
define installed
$(BIN)/python packaging/needs.py $(1) > $(VENV)/needs.txt
$(BIN)/python -m pip install -q -r $(VENV)/needs.txt & fetches=$$!; \
  VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/maturin develop --profile $(PROFILE) --skip-install; wait $$fetches
VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/maturin develop --profile $(PROFILE) --extras $(subst $() ,$(,),$(strip $(1)))
endef
, := ,

$(VENV)/.built: $(VENV)/.made pyproject.toml $(RUST_SOURCES)
	$(call installed,plot data)
	touch $@
$(VENV)/.dev: $(VENV)/.made pyproject.toml $(RUST_SOURCES)
	$(call installed,plot data dev)
	touch $@ $(VENV)/.built

build: tools ## compile and install into .venv, with all that tests and benchmarks need
	@$(MAKE) --no-print-directory $(VENV)/.dev

run: tools ## the published experiments of Network Border Patrol, expected against measured, and the HTML report
	@$(MAKE) --no-print-directory $(VENV)/.built
	$(BIN)/tidegate reproduce nbp --quick --fresh --out $(RESULTS)/quick

test: build ## everything that must hold: format, lints, Rust and Python tests, layers, experiments in quick form
	cargo fmt --all --check
	cargo clippy --profile $(CHECKED) --workspace --all-targets --features $(DAEMON) -- -D warnings
	cargo check --profile $(CHECKED) -p tidegate-gateway-sim
	PROPTEST_RNG_SEED=1 cargo test --profile $(CHECKED) $(TESTED) --tests
	cargo test --profile $(CHECKED) $(TESTED) --doc
	$(BIN)/python tests/check_layers.py
	$(BIN)/ruff check python tests benches examples experiments fuzz docs/site
	$(BIN)/python -m pytest -n 2 --dist loadgroup
	TIDEGATE_PROFILE=$(CHECKED) $(BIN)/python -m pytest -n 8 tests/system
	$(BIN)/tidegate reproduce --quick --fresh --out $(RESULTS)/quick

reproduce: build ## every experiment in full
	$(BIN)/tidegate reproduce --out $(RESULTS)/full

bench: build ## speed, next to peers measured in the same run
	$(BIN)/python benches/bench.py

bench-many: build ## what 10^2 to 10^6 TCP flows cost that are all active, and 10^2 to 10^5 routers: time to build, memory, speed
	$(BIN)/python benches/many.py --small
	$(BIN)/python benches/many.py --mesh

bench-beside: tools ## what flows with BBR or pacing cost other flows, in instructions (needs valgrind); fails where it is more than 2 %
	python3 benches/beside.py

bench-cores: build ## how many times as fast a simulation is on several cores (CORES, 2), in pairs of runs
	$(BIN)/python benches/cores.py --cores $(or $(CORES),2)

bench-emulator: tools ## how much the emulator carries, next to forwarding by the kernel (needs root and iperf3)
	cargo build --release -p tidegate-emulator
	python3 benches/emulator.py

bench-gateway: tools ## what the gateway costs, next to wireguard-go in the same run (needs root, iperf3, and wireguard-go or Go)
	cargo build --release -p tidegate-gateway --features daemon
	python3 benches/gateway.py

bench-gateway-threads: tools ## what two packet threads of a gateway cost and give, next to one (needs root and iperf3)
	cargo build --release -p tidegate-gateway --features daemon
	python3 benches/gateway_threads.py

bench-gateway-alone: build ## two real gateways on an emulated path, next to the same in the simulator: delay and goodput, on a steady path or WAY=capacity, cell, satellite (needs root and iperf3)
	cargo build --release -p tidegate-gateway --features daemon
	$(BIN)/python benches/gateway_alone.py $(if $(WAY),--path $(WAY))

bench-gateway-restarts: tools ## how soon two gateways have their rate again, after either was killed and when one moves (needs root, iperf3 and cc)
	cargo build --release -p tidegate-gateway --features daemon
	python3 benches/gateway_restarts.py

bench-gateway-interop: tools ## our gateway with wireguard-go at the other end, both ways round, over renewals of keys (needs root and iperf3)
	cargo build --release -p tidegate-gateway --features daemon
	python3 benches/gateway_interop.py

check-peers: build ## results against ns-2, in the same run; installs what it needs
	bash tests/oracle/check-peers.sh

differential: build ## SCENARIOS random networks (200) of generator SEED (1) through Tidegate and ns-2; what differs is reduced
	@bash tests/oracle/install-ns2.sh
	PYTHONPATH=tests/oracle $(BIN)/python -m differential --scenarios $(or $(SCENARIOS),200) --seed $(or $(SEED),1) \
	  --jobs $(or $(JOBS),2) --out target/differential

check-maxmin: tools ## how near NBP with WFQ comes to max-min fairness on 50 random networks (some minutes)
	cargo run --release -q -p tidegate-engine --example maxmin

leave-one-out: build ## what fitted parameters predict of the figures that are left out of the fit (STUDIES="sfb red": some); writes docs/documents.md
	$(BIN)/python docs/leave_one_out.py $(STUDIES)
	$(BIN)/python docs/make_documents.py

swarm: build ## gateways, and edges, over random paths with faults, SECONDS gateway-seconds of each (20000); what fails is reduced
	cargo run --release -q -p tidegate-gateway-sim -- --seconds $(or $(SECONDS),20000) $(if $(FIRST),--first $(FIRST))
	PYTHONPATH=tests $(BIN)/python -m swarm --seconds $(or $(SECONDS),20000) $(if $(FIRST),--first $(FIRST))

torture: build ## what takes long: properties on inputs that are new each time, random networks, sweeps killed at hundreds of instants
	PROPTEST_CASES=$(or $(CASES),20000) cargo test --release --workspace --exclude tidegate-core
	TIDEGATE_FORGED=1000000 cargo test --release -p tidegate-gateway --features wireguard --lib hostile -- --nocapture --test-threads 1
	TIDEGATE_CASES=10000 cargo test -p tidegate-lab --test suite ranges
	TIDEGATE_CASES=3000 cargo test --release -p tidegate-engine --test suite cores
	TIDEGATE_SEEDS=8 cargo test --release -p tidegate-gateway-sim --test swarm five_seconds -- --nocapture
	TIDEGATE_KILLS=200 $(BIN)/python -m pytest tests/system/test_killed.py

mutants: build ## small breakages of mechanisms, and whether the unit tests and the quick experiments notice them (long; goes on where it stopped)
	$(BIN)/python tests/mutants/run.py $(if $(ONLY),--only $(ONLY))

# Licences of what others wrote go into the package, and into no other: they are gone when it is made.
LICENSES := packaging/wheel.data/data/share/doc/tidegate/THIRD-PARTY-LICENSES

wheel: tools $(VENV)/.made ## the package, in dist/: from the same commit the same bytes, wherever it is built
	cargo fetch --locked
	mkdir -p $(dir $(LICENSES))
	$(BIN)/python packaging/licenses.py lab > $(LICENSES)
	env SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) \
	  RUSTFLAGS="--remap-path-prefix=$(CURDIR)=tidegate --remap-path-prefix=$${CARGO_HOME:-$$HOME/.cargo}=cargo" \
	  VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/maturin build --profile $(PROFILE) --locked --out dist
	rm -r packaging/wheel.data/data/share/doc
	@sha256sum dist/*.whl

sdist: $(VENV)/.made ## the sources as a package of Python, in dist/
	rm -rf packaging/wheel.data/data/share/doc
	$(BIN)/maturin sdist --out dist

deb: wheel ## a Debian package of lab and emulator, in dist/, for the python3 of this machine
	bash packaging/make_deb.sh "$$(ls -t dist/*.whl | head -1)"

gateway-deb: ## a Debian package of the gateway, in dist/, for this Debian and newer ones
	cargo build --profile $(PROFILE) --locked -p tidegate-gateway --features daemon
	bash packaging/gateway/make_deb.sh "$${CARGO_TARGET_DIR:-target}/$(PROFILE)/tidegate-gateway"

try-gateway-deb: gateway-deb ## its life in a fresh Debian, in a chroot and booted by systemd: installation, upgrade, purge (root)
	bash packaging/gateway/try_deb.sh "$${CARGO_TARGET_DIR:-target}/$(PROFILE)/tidegate-gateway"

release-check: wheel ## whether VERSION may be released: changelog, versions, the wheel in a clean environment with every command
	@test -n "$(VERSION)" || { echo >&2 "Say which: make release-check VERSION=1.2.3"; exit 2; }
	$(BIN)/python packaging/release_check.py $(VERSION) --wheel "$$(ls -t dist/*.whl | head -1)"

readme-picture: build ## the picture of the README, by the commands that stand below it
	PATH="$(CURDIR)/$(BIN):$$PATH" bash -euo pipefail -c "$$(sed -n '/^```sh picture$$/,/^```$$/{/^```/!p}' README.md)"

# What the site is made with, which nothing else needs.
$(VENV)/.site: $(VENV)/.dev
	VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/maturin develop --profile $(PROFILE) --extras plot,data,dev,site
	touch $@

# What crates outside of this repository build on. Links to private items are for who reads the source; pages show them as words.
PUBLIC_CRATES := own mechanism packet parameters units
site: tools ## the documentation as a site in target/site: pages, a gallery of all experiments, references; it needs no network
	@$(MAKE) --no-print-directory $(VENV)/.site
	RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" cargo doc --locked --no-deps $(addprefix -p tidegate-,$(PUBLIC_CRATES))
	$(BIN)/python docs/site/make_site.py --results $(RESULTS)/quick --rust target/doc --out target/site

site-links: tools ## asks whether what the site links to elsewhere answers
	@$(MAKE) --no-print-directory $(VENV)/.site
	$(BIN)/python docs/site/make_site.py --results $(RESULTS)/quick --links

fuzz: tools ## inputs that nobody thought of, for SECONDS each (60) or RUNS inputs: what strangers may send or write, and what hears it
	@cargo fuzz --version >/dev/null 2>&1 || cargo install --locked cargo-fuzz
	$(PYTHON) fuzz/run.py --seconds $(or $(SECONDS),60) $(if $(RUNS),--runs $(RUNS)) $(TARGETS)

audit: $(VENV)/.built ## licences, advisories and duplicates of what is depended on
	@cargo deny --version >/dev/null 2>&1 || cargo install --locked cargo-deny
	cargo deny --locked check
	cargo deny --locked --manifest-path fuzz/Cargo.toml check advisories
	$(BIN)/python -m pip install -q pip-audit
	$(BIN)/pip-audit --skip-editable

clean: ## remove all that was built or produced
	rm -rf $(VENV) target $(RESULTS) .pytest_cache .ruff_cache .hypothesis
	find python tests -name __pycache__ -prune -exec rm -rf {} +
	rm -f python/tidegate/_core*.so
