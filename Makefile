# make compare   which VPN suits your line, on this machine: at most five minutes, then two more in User Mode Linux for
#                what this machine's kernel lacks; NEEDS="--line 100M --path-rtt 20ms" states yours
#                LAB=vagrant: in virtual machines, started if they are not up (docs/vagrant.md); no mmdebstrap, no Debian
# make papers    what the five papers measured (docs/papers.md)
# make test      the gate of each change, some ten minutes; make test-all: the watch of each night
# All install what they need: a few Debian packages, a virtual environment, the lab image. Never a VPN daemon.

PYTHON ?= python3
PROFILE ?= quick
# netns, vagrant, ssh:INVENTORY.yml
LAB ?= netns
# it ends before, when every line has its answer; on machines one tunnel stands at a time
DEADLINE ?= $(if $(filter netns,$(LAB)),200s,15m)
# what you need: --line, --path-rtt, --path-loss, --traffic, --connections, --must
NEEDS ?=
# the VPNs, with commas; empty: all that have what you need and run here, as far as the time goes
VPNS ?=
# the guest kernel for what this machine's kernel lacks: a second, short run, whose packages are installed; empty: none
REST ?= $(if $(filter netns,$(LAB)),uml)
VPNEVAL := .venv/bin/vpneval
# Labs are isolated and mostly wait: that many tests at a time (tests/conftest.py).
SIDE_BY_SIDE ?= -n 6
# The tests of the gate, by their marks (pyproject.toml).
GATE := "not slow and not vagrant and (smoke or not (lab or kernel))"
# What failed of the tests with real daemons runs once more, alone, and is named when it passes then.
TESTS := .venv/bin/python -m tests.tools.second_chance
# The random orders of test-flaky: three, others each time.
SEEDS ?= $(shell date "+%s1 %s2 %s3")
# What test-touched looks for changes since.
BASE ?= origin/HEAD
comma := ,
ON_THIS_MACHINE := $(filter netns,$(LAB))
COMMANDS := bash $(if $(ON_THIS_MACHINE),ip mmdebstrap nsenter setpriv unshare) $(PYTHON)
PACKAGES := bash $(if $(ON_THIS_MACHINE),iproute2 mmdebstrap util-linux) python3 python3-venv

.PHONY: compare papers announced doctor test test-all test-touched test-unit test-flaky coverage mutants campaign lint rooms image setup setup-dev lock bench-lab bench-labs bench-search bench-generator bench-limits bench-truth bench-engines bench-slices bench-widths bench-decide bench-decide-real bench-report bench-farm box test-abilities test-ciphers test-vagrant clean

compare: $(if $(ON_THIS_MACHINE),announced doctor image,setup)
	$(VPNEVAL) run choose $(if $(VPNS),--vpn $(VPNS)) --profile $(PROFILE) --deadline $(DEADLINE) $(NEEDS) \
		$(if $(ON_THIS_MACHINE),,--lab $(LAB:vagrant=vagrant:up)) \
		$(if $(REST),--rest $(REST) --install) $(if $(OUT),--out $(OUT))

papers: image
	$(VPNEVAL) run papers $(if $(OUT),--out $(OUT))

# What this machine lets vpneval do, before anything is downloaded or built: a second.
doctor: setup
	$(VPNEVAL) doctor --machine

announced:
	@echo "make compare installs what is missing: Debian packages, .venv, the lab image (some minutes the first time, then" \
		"seconds). Then it asks which VPNs this machine runs, measures them for at most $(DEADLINE)$(if $(REST),$(comma)" \
		"measures what this kernel lacks for at most two more minutes under $(REST)$(comma)) and prints which VPN suits which line."

# What Python compiles it keeps, whatever the environment says: tests and their guests start it some thousand times.
test test-all test-touched test-unit test-flaky test-vagrant: export PYTHONDONTWRITEBYTECODE =

# The gate of each change: unit and browser tests, and of those with real daemons one for each rule.
test: setup-dev
	$(TESTS) $(SIDE_BY_SIDE) -m $(GATE) $(ARGS)

# The watch of each night: every test but those of the virtual machines, which test-vagrant has.
test-all: setup-dev
	$(TESTS) $(SIDE_BY_SIDE) -m "not vagrant" $(ARGS)

# Of the watch, what imports a file that has changed since BASE (a revision), committed or not.
test-touched: setup-dev
	$(TESTS) $(SIDE_BY_SIDE) -m "not vagrant and not ($(subst ",,$(GATE)))" --since $(BASE) --touched $(ARGS)

test-unit: setup-dev
	.venv/bin/pytest $(SIDE_BY_SIDE) tests/unit $(ARGS)

# The gate's lab tests three times in random order, on a machine that is busy besides.
test-flaky: setup-dev
	failed=0; for seed in $(SEEDS); do \
		tests/tools/busy.sh .venv/bin/pytest $(SIDE_BY_SIDE) tests/lab -m "smoke and not alone" --random-order-bucket=global \
			--random-order-seed=$$seed $(ARGS) || failed=1; \
	done; exit $$failed

# Branch coverage of the gate's unit and lab tests together.
coverage: setup-dev
	.venv/bin/coverage erase
	.venv/bin/coverage run -m pytest $(SIDE_BY_SIDE) tests/unit tests/lab -m $(GATE) $(ARGS)
	.venv/bin/coverage combine --quiet
	.venv/bin/coverage report

# Small changes in the code of evidence, ranking and search (runner/): which of them does no unit test notice?
mutants: setup-dev
	.venv/bin/python -m tests.tools.mutants $(ARGS)

# Random command lines, and run folders that something happened to, through every command; and small runs with labs in
# which something goes wrong. Another seed each time; ARGS="--seed S --case N" repeats a case.
campaign: image setup-dev
	.venv/bin/python -m tests.campaign $(ARGS)

lint: setup-dev
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports --no-logo
	.venv/bin/python -m tests.tools.rooms --check
	.venv/bin/python -m tests.tools.names --check

# The picture of the rooms in docs/README.md, drawn from the imports.
rooms: setup-dev
	.venv/bin/python -m tests.tools.rooms

image: setup
	$(VPNEVAL) image

# The Vagrant box, from the lab image.
box: image
	vagrant/box.sh "$$(.venv/bin/python -c 'from runner.lab.software.image import locate; print(locate("trixie"))')" vagrant/box

# Every cipher level of the VPNs of a guest kernel, up and proven in one; VPN="ipsec macsec" for some of them.
test-ciphers: image setup-dev
	.venv/bin/python -m tests.kernel.levels_inside $$(mktemp -d) $(VPN)

# What the VPNs of a guest kernel declare that they can do, tried in one; KERNEL=qemu for what User Mode Linux lacks,
# VPN="ipsec nat-l2tp" for some of it.
test-abilities: image setup-dev
	.venv/bin/python -m tests.kernel.abilities_inside $(if $(KERNEL),--kernel $(KERNEL)) $$(mktemp -d) $(VPN)

# The whole Vagrant lab under software emulation, in namespaces of its own.
test-vagrant: setup-dev
	tests/vagrant/install.sh
	$(MAKE) box
	SITES=$(SITES) $(TESTS) -n 2 tests/vagrant --timeout 3600 $(ARGS)

# What a use of vpneval needs, and beside it what tests, linters and benchmarks need: three times as much.
setup: .venv/ready

setup-dev: .venv/ready-dev

.venv/ready-dev: .venv/ready requirements-dev.txt
	.venv/bin/pip --quiet install --require-hashes --no-deps -r requirements-dev.txt
	touch .venv/ready-dev

.venv/ready: requirements.txt pyproject.toml
	@missing=""; for command in $(COMMANDS); do command -v $$command >/dev/null || missing="$$missing $$command"; done; \
	$(PYTHON) -c 'import ensurepip' 2>/dev/null || missing="$$missing python3-venv"; \
	if [ -n "$$missing" ] && ! command -v apt-get >/dev/null; then \
		echo "Missing:$$missing. This is no Debian: install them with this system's packages, and run make again." >&2; exit 1; \
	fi; \
	if [ -n "$$missing" ]; then \
		echo "Missing:$$missing. Installing what this machine lacks of: $(PACKAGES). Nothing is upgraded."; \
		apt-get -q update && DEBIAN_FRONTEND=noninteractive \
			apt-get -qy install --no-install-recommends --no-upgrade $(PACKAGES); \
	fi
	@echo "Installing the Python packages of requirements.txt into .venv: 360 MB, in one to two minutes."
	$(PYTHON) -m venv .venv
	@{ PYTHONUNBUFFERED=1 .venv/bin/pip --disable-pip-version-check install --require-hashes --no-deps -r requirements.txt || \
		echo failed; } | sed -un 's/^Collecting \([^ =]*\).*/  \1/p; s/^Installing collected.*/  unpacking all of them/p; /^failed$$/q1'
	.venv/bin/pip --quiet install --no-deps --no-build-isolation --editable .
	touch .venv/ready

# Dependencies with hashes for every Python from 3.11 on; needs uv, outside of .venv: pipx run uv, or python3 -m venv …
lock: LOCK = uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate pyproject.toml
lock:
	$(LOCK) --all-extras --output-file requirements-dev.txt
	$(LOCK) --extra build --constraint requirements-dev.txt --output-file requirements.txt

bench-lab bench-labs: setup-dev
	.venv/bin/python -m tests.bench.lab

bench-search: setup-dev
	.venv/bin/python -m tests.bench.search

# The packet generator at full speed over plain IP; exit code 1 where it offers less than it must. Half a minute, quiet.
bench-generator: image setup-dev
	.venv/bin/python -m tests.bench.generator

# What a gateway with a core of its own would carry: predicted on shared cores, and found. Exit code 1 where the prediction
# of OpenVPN or wireguard-go is wrong by more than a tenth. A few minutes, quiet.
bench-limits: image setup-dev
	.venv/bin/python -m tests.bench.limits

# Found against true on links of a known rate; the plot goes to truth.svg. About a quarter of an hour.
bench-truth: image setup-dev
	.venv/bin/python -m tests.bench.truth

# The search engines side by side on one real tunnel, five times each. About half an hour.
bench-engines: image setup-dev
	.venv/bin/python -m tests.bench.engines

# Does each word of a choice hold at its rate, with VPNs that misbehave, on quiet and on noisy machines? Exit code 1 where
# not. Then coverage, false verdicts and power of the
# verdicts on pairs, of 2,000 simulated runs each. Some twelve minutes.
bench-decide: setup-dev
	.venv/bin/python -m tests.bench.choose
	.venv/bin/python -m tests.bench.decide

# Real runs whose answer is known: equal copies, links of 90 and 100 Mbit/s, a machine busy now and then, a gateway with
# nine tenths of its CPU, five searches of one tunnel. 75 minutes on a quiet machine. For a part of it, say which, and how
# many runs from which seed on: ARGS="equal --runs 5 --first 6".
bench-decide-real: image setup-dev
	.venv/bin/python -u -m tests.bench.decide_real $(ARGS)

# How sure a ratio is after how many seconds, in turns and in blocks; the plot goes to docs/pictures. Some five minutes.
bench-widths: image setup-dev
	.venv/bin/python -m tests.bench.widths $(ARGS)

# Slices of TCP beside iperf3 on each VPN that this machine supports. Some 50 s a VPN.
bench-slices: image setup-dev
	.venv/bin/python -m tests.bench.slices $(ARGS)

# 100,000 generated trials, loaded and reported: seconds, memory, the page's size; the example's page in a browser: its
# first paint and a slider's answer. About five minutes.
bench-report: setup-dev
	.venv/bin/python -m tests.bench.report

# 10,000 blocks on 200 simulated workers in one process, and a report over their 1,000,000 slices. Some ten minutes.
bench-farm: setup-dev
	.venv/bin/python -m tests.bench.farm $(ARGS)

clean:
	rm -rf .venv
