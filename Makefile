# Run "make help" for what there is. Sizes can be given: make correctness SEEDS=5 AGENTS=8
GO ?= go
SEEDS ?= 20
AGENTS ?= 8,64
PAIRS ?= 20000
KILLS ?= 5
CRASHES ?= 400
N ?= 1000
SCHEDULES ?= 1000000
SECONDS ?= 1800
FROM ?= 1
STATE ?= bin/sim-state.json
INPUTS ?= 100000
MINUTES ?= 30
RECORDS ?= 100000
BOOK ?= $(CURDIR)/docs/trust
BROKERS ?= 1
# The fold, what explores it and what reads files have no goroutine; the simulator runs one at a time, and the rows of the
# papers' tables are programs over packages that are raced themselves. The two that take longest come first: else one of
# them runs alone at the end.
RACE ?= ./cmd/hence/internal/cli ./streams/processor $(shell $(GO) list ./gate/... ./streams/... ./sidecar/... ./cmd/... ./it/check/... | \
	grep -v -e /gate/explore$$ -e /gate/policy -e /gate/spelling$$ -e /gate/yamlfile$$ -e /sidecar/sim$$ -e /bench/tables)
# What stands on servers that the environment may name, but for the console, the documents and hence dev, which do not see
# which they have: those, and what has no servers, are left to the embedded run.
REAL ?= $(shell grep -lE 'harness\.(Start|StartOwn|StartEmpty|Deploy|Real)\b' it/*/*_test.go | xargs -n1 dirname | sort -u | \
	grep -v -e /console -e /docs | sed 's|^|./|')
# The packages with tests that start containers.
IN_CONTAINERS ?= $(shell grep -lE 'harness\.(NeedCompose|NeedContainers|AskedForContainers|Containers)\b' it/*/*_test.go | xargs -n1 dirname | sort -u | sed 's|^|./|')
# Tests of flags, files and texts, which have no goroutine of their own either, and longer runs of what others run: of
# TestBench, and of the processors on hostile records. Five minutes that the embedded run has already.
RACELESS ?= ^Test(HostileRecordsHurtNoOther|HostileRecordsOfOlderLogicHurtNoOther|UsageErrors|EveryFileIsRead|TokenWithoutAnAddress|CommandsFindDev|RunExitCodes|BenchTables|CheckTopology|EveryFlagRefuses|BadValues|BadHookFlags|TokenFileRefused|ContextOrigins|PolicyFindsMistakes|Complete|CompletionScripts|ReplayFrom|ReplayChange|Complaints|Check|PolicyRefused|PolicyOfTheExample|Audit|AuditRefused|KeysRefused|TailBadFilters|DoctorBadFlags|ConsoleBadFlags|MissingSecret|StrangeVariables|ConfigPrint|UpCheck|UpCheckHook|UpColours|CompletionBehindEquals|ContextWithoutAHome|SimDependsOnItsSeedsAlone|BenchGrowth|BenchAdding|BenchNodes|BenchSoak)$$

.PHONY: help build release test test-full searches searches-fold searches-log searches-rest race bench performance lint correctness acceptance crash-windows restarts dev-again it-real it-containers explore-3x2 explore-all explore-gate explore-retract exact holes mutants sim sim-agents sim-model sim-faults hostile python fuzz soak ci demo doors typescript torture trust

help: ## print this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-14s %s\n", $$1, $$2}'

build: ## compile the binary into bin/hence
	$(GO) build -o bin/hence ./cmd/hence

release: ## stripped archives for Linux and macOS in dist/, with SHA256SUMS; the same commit gives the same bytes
	$(GO) run .ci/release.go $(if $(TARGETS),-targets $(TARGETS))

test: ## every test that needs no server, the large searches in samples; skips say what is missing
	$(GO) test -timeout 15m ./...

test-full: ## the same with the large searches whole, of which continuous integration has a part in turn
	HENCE_TEST_FULL=1 $(GO) test -timeout 25m ./...

searches-fold: ## the large searches of fold and gate whole
	HENCE_TEST_FULL=1 $(GO) test -timeout 25m ./gate/explore ./sequencer/explore

# By name: all other tests of these packages are the same at any size.
searches-log: ## the large searches over logs and what is derived of them whole, and no other test
	HENCE_TEST_FULL=1 $(GO) test -timeout 25m -run '^TestCountersFollowTheState$$|^TestCountersSurviveHostileRecords$$|^TestExact$$|^TestFirstWould$$|^TestMerge$$|^TestReplayHistories$$|^TestSameSets$$|^TestTwin$$|^TestTwinRetracts$$|^TestWeakerLevel$$|^TestWindowEqualsHistory$$|^TestWindowWhole$$|^TestWorlds$$' ./sequencer/...

searches-rest: ## the other large searches whole, and no other test
	HENCE_TEST_FULL=1 $(GO) test -timeout 25m -run '^TestCarried$$|^TestCut$$|^TestHostileRecords$$|^TestHostileRecordsHurtNoOther$$|^TestHostileRecordsOfOlderLogic$$|^TestHostileRecordsOfOlderLogicHurtNoOther$$|^TestMerge$$|^TestReadability$$|^TestReplaySchedules$$|^TestRowsAfterEveryEnd$$|^TestRowsOfLargestRecords$$|^TestSchedules$$|^TestVerdictsFall$$' ./topology/... ./streams/processor ./sidecar/sim ./cmd/hence/internal/bench/tables

searches: searches-log searches-rest ## the large searches but those of fold and gate whole

race: ## the tests of concurrent packages under the race detector
	$(GO) test -race -short -timeout 15m -skip '$(RACELESS)' $(RACE)

bench: ## cost of the fold per event, and other benchmarks
	$(GO) test -run '^$$' -bench . -benchmem ./...

# On running servers if HENCE_BROKERS and HENCE_NATS are set, beside a database if HENCE_POSTGRES is.
performance: ## an hour and a half of hence bench; writes docs/performance.md
	$(GO) run .ci/release.go -build bin/hence
	bin/hence bench --all --doc docs/performance.md

lint: ## formatting, vet, staticcheck
	@test -z "$$(gofmt -l .)" || { echo "not formatted, run gofmt -w on:"; gofmt -l .; exit 1; }
	$(GO) vet ./...
	$(GO) tool staticcheck ./...

correctness: ## the demo's own check: SEEDS seeds, AGENTS agents, every order mode; real servers if HENCE_TEST_* are set
	HENCE_IT_SEEDS=$(SEEDS) HENCE_IT_AGENTS=$(AGENTS) $(GO) test -count=1 -v -timeout 4h -run '^TestCorrectness$$' ./it/order
	env -u HENCE_TEST_KAFKA -u HENCE_TEST_NATS \
	HENCE_IT_SEEDS=$(SEEDS) HENCE_IT_AGENTS=$(AGENTS) $(GO) test -count=1 -v -timeout 4h -run '^TestCorrectness$$' ./it/order

acceptance: ## the suite at full size: PAIRS pairs, KILLS kills of each part, CRASHES kills in settlements, N of all else
	HENCE_TEST_FULL=1 HENCE_IT_PAIRS=$(PAIRS) HENCE_IT_KILLS=$(KILLS) HENCE_IT_CRASHES=$(CRASHES) HENCE_IT_SENDS=100 HENCE_IT_PHANTOMS=$(N) \
	HENCE_IT_RESIDUE=$(N) HENCE_IT_RESIDUE_TAGS=600 HENCE_IT_RETRACTIONS=$(N) HENCE_IT_RETRACTION_PAIRS=100 \
	HENCE_IT_OWN_APPROVALS=1000 HENCE_IT_APPROVAL_KILLS=10 \
	HENCE_IT_ORDER_ROUNDS=40 HENCE_IT_MOVES=5 HENCE_IT_DIRTY=20 HENCE_IT_ISOLATION_TASKS=20 $(GO) test -count=1 -v -p 1 -timeout 4h ./it/...

# One package at a time: the processors of two would share their groups' partitions.
it-real: ## the suite on the servers in HENCE_TEST_KAFKA and HENCE_TEST_NATS
	@test -n "$$HENCE_TEST_KAFKA" -a -n "$$HENCE_TEST_NATS" || { echo "set HENCE_TEST_KAFKA and HENCE_TEST_NATS"; exit 1; }
	HENCE_TEST_FULL=1 $(GO) test -count=1 -v -p 1 -timeout 24m -skip '^TestDevAgain$$' $(REAL)

# An image for another machine is compiled without containers: TestComposeArm64 takes its turn in .ci/run.
it-containers: ## the tests that start containers: needs an engine, compose and the images of compose/
	HENCE_TEST_FULL=1 HENCE_TEST_CONTAINERS=1 HENCE_REQUIRE_CONTAINERS=1 $(GO) test -count=1 -v -p 1 -timeout 28m -skip Arm64 -run 'Container|Compose|Cluster|TestDocs$$/(docs|compose)$$/(cluster|README)' $(IN_CONTAINERS)

crash-windows: ## CRASHES kills of sidecars at every step of a settlement
	HENCE_IT_CRASHES=$(CRASHES) $(GO) test -count=1 -v -timeout 30m -run '^TestCrash' ./it/crash

restarts: ## two kills at every pair of points of a sidecar's work and of the start after it; about an hour
	HENCE_RESTARTS=all $(GO) test -count=1 -v -timeout 4h -run '^TestRestarts$$' ./it/crash

dev-again: ## hence dev started 50 times under six agents, in memory and with a data folder
	HENCE_IT_DEV_AGAIN=50 $(GO) test -count=1 -v -timeout 1h -run '^TestDevAgain$$' ./it/crash

explore-3x2: ## the explorer on 3 transactions and 2 scopes, complete
	HENCE_EXPLORE_3X2=1 $(GO) test -count=1 -v -timeout 12h -run 3x2 ./sequencer/explore

explore-all: ## every other small world: mixed modes, crashes, branches, ticks, observing; about an hour and a half
	HENCE_EXPLORE_ALL=1 $(GO) test -count=1 -v -timeout 3h ./sequencer/explore

explore-gate: ## the gate's world: keys, late calls, two incarnations, sinks that are down; about an hour
	HENCE_EXPLORE_GATE=1 $(GO) test -count=1 -v -timeout 3h -run Gate ./gate/explore

explore-retract: ## retraction on 3 transactions and 2 scopes, complete
	HENCE_EXPLORE_RETRACT=1 $(GO) test -count=1 -v -timeout 12h -run Retract ./sequencer/explore

exact: ## the detectors of anomalies on every history of 550,970 and on 100,000 random ones
	HENCE_EXACT_ALL=1 $(GO) test -count=1 -v -timeout 1h -run '^TestExact$$' ./sequencer/anomaly

holes: ## takes each rule of docs/holes.md out of the fold, and looks whether script, explorer and simulator find it; WRITE=1: the page gets it
	HENCE_TEST_HOLES=all HENCE_TEST_HOLES_WRITE=$(WRITE) $(GO) test -count=1 -v -timeout 2h -run '^TestHoles$$' ./it/mutants

mutants: ## breaks the gate's rule clause by clause, and the code by each patch of it/mutants: a test must notice each
	HENCE_TEST_MUTANTS=1 $(GO) test -count=1 -v -timeout 2h -run '^TestMutants$$' ./gate
	HENCE_TEST_MUTANTS=1 $(GO) test -count=1 -v -timeout 2h -run '^TestMutants$$' ./it/mutants

sim: ## a slice of SECONDS of schedules of real agents; goes on from STATE, the first one at seed FROM
	HENCE_SIM_SECONDS=$(SECONDS) HENCE_SIM_STATE=$(abspath $(STATE)) $(GO) test -count=1 -v -timeout 24h -run '^TestRealSlice$$' \
	./sidecar/sim -first $(FROM)

sim-agents: ## schedules of real agents for SECONDS from seed FROM on, and forget how far it came
	HENCE_SIM_SECONDS=$(SECONDS) $(GO) test -count=1 -v -timeout 24h -run '^TestRealSchedules$$|^TestRealSweep$$' \
	./sidecar/sim -first $(FROM)

sim-model: ## SCHEDULES schedules of the fold under a model of a sidecar
	$(GO) test -count=1 -v -timeout 24h -run '^TestSchedules$$' ./sidecar/sim -schedules $(SCHEDULES)

sim-faults: ## faults that were found by reading, each put back: real agents find it
	HENCE_TEST_FAULTS=1 $(GO) test -count=1 -v -timeout 24h -run '^TestFindsFaults$$' ./sidecar/sim

python: ## the Python client's suite and its scenarios at full size
	HENCE_REQUIRE_PYTHON=1 HENCE_PY_TURNS=200 HENCE_PY_ROUNDS=10 HENCE_PY_NULLS=1000 $(GO) test -count=1 -v -timeout 30m ./it/pythonclient

typescript: ## the TypeScript client: built, installed from its tarball, and its suite
	HENCE_REQUIRE_NODE=1 HENCE_JS_TURNS=200 HENCE_JS_ROUNDS=10 HENCE_JS_NULLS=1000 $(GO) test -count=1 -v -timeout 30m ./it/jsclient

doors: ## MCP clients and servers of others, as released, through Hence and bare; needs Node.js, Python and their registries
	HENCE_TEST_DOORS=1 $(GO) test -count=1 -v -timeout 30m ./it/doors

hostile: ## RECORDS mutated records of each kind, and the largest legal ones
	HENCE_HOSTILE=$(RECORDS) $(GO) test -count=1 -v -timeout 4h -run 'Hostile|Largest|Visits|Counters' ./sequencer ./topology ./streams/processor

torture: ## SECONDS of faults on BROKERS real brokers, added to the figures in BOOK; again until its goals are reached
	HENCE_TRUST_BOOK=$(BOOK) HENCE_TORTURE_KILLS=100 HENCE_TORTURE_FAULTS=100 HENCE_TORTURE_COMMITS=1000000 \
	HENCE_TORTURE_SECONDS=$(SECONDS) HENCE_TORTURE_BROKERS=$(BROKERS) \
	$(GO) test -count=1 -v -timeout 3h -run '^TestTorture$$' ./it/torture

trust: ## docs/trust.md from the figures in BOOK
	$(GO) run ./cmd/hence torture report --book $(BOOK) --doc docs/trust.md

fuzz: ## INPUTS new inputs to each fuzz target
	HENCE_TEST_FUZZ=$(INPUTS) $(GO) test -count=1 -v -timeout 24h -run '^TestFuzz$$' ./it/fuzz

soak: ## MINUTES of load on one sidecar: memory, goroutines, open files, disk and times of turns are to stay as they are
	HENCE_SOAK_MINUTES=$(MINUTES) $(GO) test -count=1 -v -timeout 24h -run '^TestBenchSoak$$' ./cmd/hence/internal/cli

ci: ## all that continuous integration runs
	bash .ci/run

demo: ## eight agents over one retail store
	$(GO) run ./cmd/hence demo
