#!/usr/bin/env bash
# The README's three commands, with every VPN and one level of each sweep: tests/vagrant/story.sh RESULTS_DIR
# Prints "phase NAME SECONDS EXIT_CODE" after each; the test reads that.
set -uo pipefail
cd "$(dirname "$0")/../.."
results=$1
vpneval=.venv/bin/vpneval
export VPNEVAL_PATIENCE=${VPNEVAL_PATIENCE:-20} # software emulation, and five machines on the cores of one
phase() {
    local name=$1 started=$SECONDS code=0
    shift
    "$@" >"$results/$name.out" 2>"$results/$name.err" || code=$?
    echo "phase $name $((SECONDS - started)) $code"
}
run() { $vpneval run "$1" --lab vagrant --profile smallest --quiet --out "$results/$1" "${@:2}"; }

phase up vagrant up --parallel
phase nodes vagrant status
phase transport run transport --set transport=tcp,streams=1,direction=forward ${VPNS:+--vpn $VPNS}
phase cipher run cipher --set cipher=chacha20-poly1305 ${VPNS:+--vpn $VPNS}
phase compression run compression --set compression=on,payload=zeros ${VPNS:+--vpn $VPNS}
phase report $vpneval report "$results"/{transport,cipher,compression} --weights tcp_throughput=1 --format json
phase destroy vagrant destroy --force
phase left bash -c 'virsh list --all --name; virsh net-list --all --name | grep -vx vagrant-libvirt'
