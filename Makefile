# `make demo` and `make test` are all a newcomer needs; each installs what is missing first.
CARGO ?= cargo
DEMO := target/demo
MODEL := examples/models/gpt_tiny.mlir
# The bundled example's arguments and batches, where it has them; arguments that are not given are zeros.
INPUTS := $(addprefix --inputs ,$(wildcard examples/models/gpt_tiny.safetensors))
BATCHES := $(addprefix --batches ,$(wildcard examples/models/gpt_tiny.batches.safetensors))

.PHONY: help setup build demo test hunt bench fmt lint

help:
	@echo 'make setup   install LLVM/MLIR 22 and the other packages that are missing'
	@echo 'make demo    compile, run and draw a small model on 4 devices'
	@echo 'make test    everything that is checked: format, lints, tests'
	@echo 'make hunt    the property tests with other seeds: SEEDS=20, or SEEDS="7 8 9"'
	@echo 'make build   optimised binaries in target/release'
	@echo 'make bench   measure kernels, planning and whole steps'
	@echo 'make fmt     format the sources'
	@echo 'make lint    check format and lints'

setup:
	@scripts/setup.sh

build: setup
	$(CARGO) build --release --workspace --bins

demo: build
	@mkdir -p $(DEMO)
	target/release/shardwright compile $(MODEL) --cluster local:4 -o $(DEMO)/gpt.plan
	target/release/shardwright run $(DEMO)/gpt.plan $(INPUTS) $(BATCHES) --steps 4
	target/release/shardwright view $(DEMO)/gpt.plan -o $(DEMO)/gpt.html
	@echo
	@echo 'The plan is $(DEMO)/gpt.plan; open $(DEMO)/gpt.html in a browser.'

fmt:
	$(CARGO) fmt --all

lint: setup
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings

test: lint
	$(CARGO) test --workspace
	$(CARGO) clippy --workspace --features mpi --lib --bins -- -D warnings
	$(CARGO) test --workspace --features mpi --test processes mpirun
	@echo
	@echo 'make test: format, lints and all tests passed'

hunt: setup
	scripts/hunt.sh $(SEEDS)

bench: build
	scripts/bench.sh
