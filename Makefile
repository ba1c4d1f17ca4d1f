# PocketMQ: the table of contents of everything that is done to this repository.
# `make help` lists the targets. CI (.ci/run) calls these same targets.

GO ?= go

# Where the bytes live. These packages also run on a single processor (make single).
CORE_PKGS = ./message ./internal/mmap ./internal/segment ./commitlog ./consumequeue ./dispatcher ./store ./broker ./mq

# These packages also run under an emulator (make qemu): 32 bits, and big-endian. internal/mmap is not among them,
# as most of its tests are about faults and advice that an emulator does not pass on.
QEMU_PKGS   = ./message ./internal/segment ./commitlog ./consumequeue ./store
QEMU_ARCHES = arm s390x

# Everything compiles for these (make cross): GOOS/GOARCH, and a third part for GOARM.
PLATFORMS = linux/arm/7 linux/arm64 linux/s390x linux/386 darwin/arm64 windows/amd64

FUZZTIME  ?= 10s
BENCH     ?= .
BENCHTIME ?= 1s

# Of make bench-peers: each measurement ends after so many bytes or that time; the rounds; and, if it is not to be all of
# them, a regular expression of the groups, as make plan-peers lists them.
PEERS_BYTES ?= 1073741824
PEERS_LIMIT ?= 4s
PEERS_RUNS  ?= 5
PEERS_ONLY  ?=
PEERS        = cd bench/peers && $(GO) run . -bytes $(PEERS_BYTES) -limit $(PEERS_LIMIT) -runs $(PEERS_RUNS) \
	-only '$(PEERS_ONLY)' -out ../../docs/benchmarks

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: tools
tools: ## install what is missing: golangci-lint and the emulators
	.ci/tools golangci-lint $(QEMU_ARCHES:%=qemu-%)

.PHONY: fmt
fmt: ## format every file, imports too
	"$$(.ci/tools golangci-lint)" fmt

.PHONY: gofmt
gofmt: ## fail if gofmt would change a file
	@files=$$(gofmt -l .) && if [ -n "$$files" ]; then echo "gofmt would change:"; echo "$$files"; exit 1; fi

.PHONY: vet
vet: ## go vet, the slower suites included
	$(GO) vet ./...
	$(GO) vet -tags slow ./...
	cd interop && $(GO) vet ./...
	cd bench/peers && $(GO) vet ./...

.PHONY: mod
mod: ## fail if go.mod is not tidy, or a dependency is not what go.sum says
	$(GO) mod tidy -diff
	$(GO) mod verify
	cd interop && $(GO) mod tidy -diff
	cd bench/peers && $(GO) mod tidy -diff

.PHONY: lint
lint: gofmt vet ## gofmt, go vet and golangci-lint
	"$$(.ci/tools golangci-lint)" run ./...
	cd interop && "$$(../.ci/tools golangci-lint)" run ./...
	cd bench/peers && "$$(../../.ci/tools golangci-lint)" run ./...

.PHONY: test
test: ## the tests, as README says
	$(GO) test ./...

.PHONY: race
race: ## the tests under the race detector
	$(GO) test -race -timeout 20m ./...

.PHONY: single
single: ## the core packages on one processor
	GOMAXPROCS=1 $(GO) test -count=1 -timeout 20m $(CORE_PKGS)

.PHONY: slow
slow: ## the slower suites (build tag slow), with all the others
	$(GO) test -count=1 -tags slow -timeout 30m ./...

.PHONY: disks
disks: ## disks that are really full, fail or hang, which needs root; says what it skips
	$(GO) test -count=1 -tags slow -v -run 'TestReal' -timeout 10m . ./store

.PHONY: interop
interop: ## the store against RocketMQ's own, which needs Java 17 and Maven
	.ci/interop

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME each
	.ci/fuzz $(FUZZTIME)

.PHONY: bench
bench: ## the benchmarks; BENCH selects, BENCHTIME says how long
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchtime $(BENCHTIME) -benchmem -timeout 60m ./bench

.PHONY: peers-java
peers-java: ## the peers in Java, where there are Java 17 and Maven
	@for program in java mvn; do command -v $$program >/dev/null || { echo "PEERS WITHOUT THOSE IN JAVA: no $$program"; exit 0; }; done; \
	build="mvn -q -B -Dstyle.color=never -f bench/peers/java package"; $$build -o >/dev/null 2>&1 || $$build

.PHONY: bench-peers
bench-peers: peers-java ## what is missing of PocketMQ beside its peers, into docs/benchmarks, on a machine that does nothing else
	$(PEERS)

.PHONY: plan-peers
plan-peers: peers-java ## what bench-peers would measure, group by group, and how long it takes
	@$(PEERS) -plan

.PHONY: report-peers
report-peers: ## the report of what bench-peers has measured
	$(PEERS) -report

.PHONY: test-peers
test-peers: peers-java ## every peer with a thousand messages, and killed
	cd bench/peers && $(GO) test -count=1 -timeout 20m ./...

.PHONY: cover
cover: ## test coverage, the total on the last line
	$(GO) test -coverpkg=./... -coverprofile=coverage.out ./...
	$(GO) tool cover -func=coverage.out | tail -n 1

.PHONY: build
build: ## the static command line program, in bin/
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o bin/pocketmq ./cmd/pocketmq

.PHONY: cross
cross: ## compile and vet everything, tests too, for the other platforms
	.ci/cross $(PLATFORMS)

.PHONY: qemu
qemu: ## the tests of the storage packages on other processors, emulated
	@for arch in $(QEMU_ARCHES); do .ci/qemu "$$arch" $(QEMU_PKGS) || exit 1; done

.PHONY: quickstart
quickstart: ## run the example on a few files of the standard library
	.ci/quickstart

.PHONY: examples
examples: ## the examples that are modules of their own, and those that print what can be compared
	cd examples/prometheus && $(GO) mod tidy -diff && $(GO) mod verify && $(GO) vet ./... && $(GO) test -count=1 ./...
	$(GO) test -count=1 ./examples/...

.PHONY: clean
clean: ## remove what the other targets left behind
	rm -rf bin coverage.out interop/java/target bench/peers/java/target
