# "make" alone prints what there is to make. Tools are pinned in tools.mod.
SHELL := bash
TOOL := go tool -modfile=tools.mod
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
BUILD := go build -ldflags '-s -w -X main.version=$(VERSION)'
# Static binaries without paths of this machine; only the race detector needs C.
export CGO_ENABLED := 0
export GOFLAGS := $(GOFLAGS) -trimpath -buildvcs=false

GOTEST := CGO_ENABLED=1 $(TOOL) gotestsum --format pkgname -- -shuffle=on -timeout 30m
# Simulations of many members in virtual time run without the race detector: with
# thousands of timers, Go 1.26's ends one run in eight with a segmentation
# violation in runtime.(*timer).maybeRunChan. What measures memory does, too: the race
# detector needs several times as much.
UNRACED := ^Test(Simulated|StreamsWithoutTheKey)
FUZZTIME := 60s
MINORS := $(filter-out go,$(patsubst kube/%.mod,%,$(wildcard kube/*.mod)))
ON_API_SERVER := ./test/api/... ./sandbox ./internal/apikinds ./internal/agent/metallb ./internal/agent/sources
.PHONY: help build plugin kube image up down docs test minors conformance soak fuzz mutants bench reproduce check generate clean gcc qemu wget

help: ## print this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build bin/fairlead, bin/kubectl-fairlead and bin/sandbox
	$(BUILD) -o bin/ ./cmd/fairlead ./cmd/kubectl-fairlead ./cmd/sandbox

plugin: ## build the plugin of kubectl for all systems, with a manifest for krew
	go run ./cmd/release plugin

kube: build ## build bin/kube: Kubernetes and etcd in one binary (ten minutes the first time)
	bin/sandbox kube

image: build ## write bin/fairlead.tar, an image for docker load or ctr images import
	bin/sandbox image fairlead.invalid/fairlead:$(VERSION) bin/fairlead.tar

up: kube ## start a real cluster of three nodes with Fairlead (CLOUD=cloudscale or cloudsigma: in a simulated cloud; CLOUD_FLAGS=--nics=manual; NETWORK=ovn: with OVN and a project of kube-dc; ROUTERS=frr: behind two routers, announced by BGP)
	bin/sandbox up $(if $(ROUTERS),--routers $(ROUTERS)) $(if $(NETWORK),--network $(NETWORK)) $(if $(CLOUD),--cloud $(CLOUD)) $(addprefix --cloud-flag=,$(CLOUD_FLAGS))

down: build ## remove that cluster
	bin/sandbox down

docs: ## make a site of the documentation in bin/docs; a link that leads nowhere is an error
	go run ./cmd/docs

# Suites on real nodes run one after the other: they are about who answers in time. They
# share a cluster, which is taken down whatever happens.
test: check kube gcc ## run all checks and tests, on a real API server and on real nodes
	$(GOTEST) -race -skip '$(UNRACED)' $$(go list ./... | grep -v /test/cluster/)
	$(GOTEST) -run '$(UNRACED)' ./internal/member
	trap 'bin/sandbox down --name fairlead-tests' EXIT; FAIRLEAD_KEEP_CLUSTER=1 $(GOTEST) -race -p 1 ./test/cluster/...

# make test runs them against kube/go.mod, with the race detector.
minors: build ## run the suites on an API server against the older versions of Kubernetes in kube/ (MINORS=1.36: only that one; ten minutes more the first time)
	@all=; for minor in $(MINORS); do export FAIRLEAD_KUBERNETES=$$minor; bin/sandbox kube bin/$$minor || exit; \
		version=$$(bin/$$minor/kubectl version --client | sed -n 's/^Client Version: v/Kubernetes /p'); echo "$$version"; \
		$(TOOL) gotestsum --format pkgname -- -shuffle=on -count=1 -timeout 30m $(ON_API_SERVER) && result=passed || result=failed; \
		all+="$$version: $$result"$$'\n'; done; \
	echo; echo -n "$$all"; [[ $$all != *failed* ]]

fuzz: ## run each fuzz target of the tree for FUZZTIME (60s)
	@set -o pipefail; targets=0; inputs=0; while IFS=: read -r file _ name; do \
		out=$$(go test -run '^$$' -fuzz "^$${name#func }\$$" -fuzztime $(FUZZTIME) "./$${file%/*}" </dev/null | tee /dev/stderr) || exit 1; \
		execs=$$(grep -oE 'execs: [0-9]+' <<<"$$out" | tail -n 1); targets=$$((targets + 1)); inputs=$$((inputs + $${execs#execs: })); \
	done < <(grep -rnoE '^func Fuzz[[:alnum:]]+' --include='*_test.go' $(filter-out bin kube,$(patsubst %/,%,$(wildcard */)))); \
	echo "$$targets fuzz targets, $$inputs inputs: nothing failed"

mutants: ## list the changes of one operator in PKG (internal/elect) that its unit tests do not notice (JOBS at a time)
	nice go run ./test/mutants -jobs $(or $(JOBS),1) -every $(or $(EVERY),1) $(or $(PKG),internal/elect)

bench: kube ## run the benchmarks
	go run ./test/bench

conformance: kube wget ## run Kubernetes' own tests of load balancers (ten minutes; ANNOUNCE=layer2 or bgp: one of them; SLOW=1: slow tests, too, hours)
	go run ./test/conformance $(if $(ANNOUNCE),-announce $(ANNOUNCE)) $(if $(SLOW),-slow)

soak: kube ## break a real cluster at random for MINUTES (30), with traffic, and fail if clients notice more than they may (SEED repeats an order of faults)
	go run ./test/soak -minutes $(or $(MINUTES),30) -seed $(or $(SEED),0)

reproduce: qemu ## build a release twice, compare, and start its images (minutes; not part of make test)
	go run ./test/reproduce

check: ## gofmt, vet, staticcheck, golangci-lint, generated files
	@test -z "$$(gofmt -l . | tee /dev/stderr)" || { echo "gofmt -w the files above" >&2; exit 1; }
	go vet ./...
	$(TOOL) staticcheck ./...
	$(TOOL) golangci-lint run
	go run ./cmd/generate -check

generate: ## regenerate CRDs, deploy/ and docs/reference/
	go run ./cmd/generate

clean: down ## stop the cluster and remove bin/ and dist/
	rm -rf bin dist

gcc: # for the race detector
	@command -v gcc >/dev/null || { apt-get -q update && apt-get -q install -y --no-install-recommends gcc libc6-dev; }

wget: # and nc, for pods of Kubernetes' tests
	@command -v wget >/dev/null && command -v nc.openbsd >/dev/null || { apt-get -q update && apt-get -q install -y --no-install-recommends wget netcat-openbsd; }

qemu: # starts images for arm64
	@command -v qemu-aarch64-static >/dev/null || { apt-get -q update && apt-get -q install -y --no-install-recommends qemu-user-static; }
