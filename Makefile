# What a developer types. "make help" lists it; .ci/run is what CI runs.

SHELL := /bin/bash
GO ?= go
CACHE := .cache
BIN := bin/mcp-gateway
REQUIREMENTS := internal/e2e/testdata/requirements
CLIENTS := internal/e2e/testdata/clients
EVERYTHING_SERVER := github.com/modelcontextprotocol/go-sdk/conformance/everything-server@v1.8.0
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
IMAGE_SERVERS := duckduckgo fetch time arxiv filesystem memory sequentialthinking
LISTEN ?= 127.0.0.1:50005
RUN_ROOT := $(CURDIR)/.run

# Where git does not trust the folder, go cannot stamp the commit and would refuse to build.
BUILDVCS := $(shell git status --porcelain >/dev/null 2>&1 && echo auto || echo false)
# The race detector needs a C compiler.
RACE := $(shell command -v gcc >/dev/null && echo -race)

# uv does not read pip's settings. It must not fetch a Python of its own either.
export UV_PYTHON_DOWNLOADS ?= never
PIP_INDEX := $(or $(PIP_INDEX_URL),$(shell python3 -m pip config get global.index-url 2>/dev/null))
ifneq ($(PIP_INDEX),)
export UV_DEFAULT_INDEX ?= $(PIP_INDEX)
endif

.PHONY: help build check deps test image-test run stop clean catalog-check catalog-sample

help: ## list these targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | column -t -s $$'\t' 2>/dev/null || sed -n 's/^\([a-z-]*\):.*## /\1: /p' $(MAKEFILE_LIST)

build: ## build the static binary bin/mcp-gateway
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=$(BUILDVCS) -ldflags='-s -w' -o $(BIN) ./cmd/mcp-gateway

check: ## formatting, vet, staticcheck, tidy, a static build
	@unformatted=$$(gofmt -l $$($(GO) list -f '{{.Dir}}' ./...)); \
	  if [ -n "$$unformatted" ]; then echo "not formatted, see gofmt -d:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...
	$(GO) mod tidy -diff
	$(MAKE) --no-print-directory build

DEPS := $(foreach name,py1 py2 fastmcp uv schemathesis npm gobin template e2b,$(CACHE)/$(name)/.ready)

deps: ## install what the tests need into .cache
	@$(MAKE) --no-print-directory -j4 $(DEPS)

test: deps ## run every test
	@[ -n "$(RACE)" ] || echo "no C compiler: testing without the race detector" >&2
	$(GO) test $(RACE) -timeout 15m ./...

image-test: build $(CACHE)/py1/.ready $(CACHE)/template/.ready ## build template/Dockerfile without Docker, and use the image as a sandbox (needs root)
	internal/e2e/image.sh $(CACHE)/image $(IMAGE_SERVERS)
	$(GO) test -count=1 -v -run '^TestE1_Image$$' ./internal/e2e/ -args -image $(CACHE)/image

run: build ## start a gateway with four servers under .run and call a tool
	@LISTEN=$(LISTEN) internal/demo/run.sh $(BIN) $(RUN_ROOT)

stop: ## stop the gateway of "make run"
	@$(BIN) --root $(RUN_ROOT) stop

catalog-check: build $(CACHE)/uv/.ready ## install and start every server of the catalogue (hours; goes on where it was; ARGS=-help)
	PATH=$(CURDIR)/$(CACHE)/uv/bin:$$PATH $(GO) run ./internal/catalogcheck -binary $(BIN) -work $(CACHE)/catalog-check $(ARGS)

catalog-sample: build $(CACHE)/uv/.ready $(CACHE)/npm/.ready ## install and start 8 proven servers of the catalogue, chosen by the commit
	PATH=$(CURDIR)/$(CACHE)/uv/bin:$(CURDIR)/$(CACHE)/npm/node_modules/node/bin:$$PATH $(GO) run ./internal/catalogcheck -binary $(BIN) -work $(CACHE)/catalog-sample \
	  -jobs 2 -sample 8 -seed "$$(git rev-parse HEAD 2>/dev/null || echo none)"

clean: ## remove everything that was built or installed
	rm -rf bin $(CACHE) $(RUN_ROOT)

# A virtual environment with exactly one list of requirements.
$(CACHE)/%/.ready: $(REQUIREMENTS)/%.txt | $(CACHE)/.venv
	@rm -rf $(@D)
	python3 -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

# Debian has venv in a package of its own.
$(CACHE)/.venv:
	@mkdir -p $(CACHE)
	@python3 -c 'import ensurepip, venv' 2>/dev/null || { apt-get update -q && apt-get install -qy python3-venv; }
	@touch $@

$(CACHE)/npm/.ready: $(CLIENTS)/package.json
	@rm -rf $(@D)
	@mkdir -p $(@D)
	cp $< $(@D)/
	npm install --prefix $(@D) --no-audit --no-fund --no-package-lock --loglevel=error
	@# The package node fetches its binary by an install script, which npm may be set not to run.
	@cd $(@D)/node_modules/node && { [ -x bin/node ] || node installArchSpecificPackage; }
	@touch $@

# E2B's TypeScript SDK, and the compiler that checks the template made with it.
$(CACHE)/e2b/.ready: template/e2b/package.json
	@rm -rf $(@D)
	@mkdir -p $(@D)
	cp $< $(@D)/
	npm install --prefix $(@D) --no-audit --no-fund --no-package-lock --loglevel=error
	@touch $@

# The server that the official conformance suite is run against, directly and through the gateway.
$(CACHE)/gobin/.ready: Makefile
	GOBIN=$(CURDIR)/$(@D) $(GO) install $(EVERYTHING_SERVER)
	@touch $@
