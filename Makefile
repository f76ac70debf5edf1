# make compare   the thesis' comparison on this machine, in about six minutes, ending in a ranked report
# make test      everything that can be tested here
# Both install what they need: a few Debian packages, a virtual environment, the lab image. Never a VPN daemon.

PYTHON ?= python3
PROFILE ?= quick
# six minutes, less the start and the report
DEADLINE ?= 350s
VPNEVAL := .venv/bin/vpneval
COMPARISON := reference transport cipher compression recommended
COMMANDS := bash ip mmdebstrap nsenter setpriv unshare $(PYTHON)
PACKAGES := bash iproute2 mmdebstrap python3 python3-venv util-linux

.PHONY: compare test test-unit lint image setup lock bench-lab bench-search clean

compare: image
	$(VPNEVAL) run $(COMPARISON) --profile $(PROFILE) --deadline $(DEADLINE) $(if $(OUT),--out $(OUT))

test: setup
	.venv/bin/pytest $(ARGS)

test-unit: setup
	.venv/bin/pytest tests/unit $(ARGS)

lint: setup
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy

image: setup
	$(VPNEVAL) image

setup: .venv/ready

.venv/ready: requirements.txt pyproject.toml
	@missing=""; for command in $(COMMANDS); do command -v $$command >/dev/null || missing="$$missing $$command"; done; \
	$(PYTHON) -c 'import ensurepip' 2>/dev/null || missing="$$missing python3-venv"; \
	if [ -n "$$missing" ]; then \
		echo "missing:$$missing; installing: $(PACKAGES)"; \
		apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -qy install --no-install-recommends $(PACKAGES); \
	fi
	$(PYTHON) -m venv .venv
	.venv/bin/pip --quiet install --require-hashes --no-deps -r requirements.txt
	.venv/bin/pip --quiet install --no-deps --no-build-isolation --editable .
	touch .venv/ready

# Dependencies with hashes for every Python from 3.11 on; needs uv.
lock:
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
		--extra dev pyproject.toml --output-file requirements.txt

bench-lab: setup
	.venv/bin/python tests/bench_lab.py

bench-search: setup
	.venv/bin/python -m runner.search.bench

clean:
	rm -rf .venv
