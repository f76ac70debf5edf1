#!/usr/bin/env bash
# The README's three commands, with every VPN of the comparison and one level of each sweep, all in one run folder:
#
#     tests/vagrant/story.sh RESULTS_DIR
#
# Prints "phase NAME SECONDS EXIT_CODE" after each, and the processor time of the VMs; the test reads that. Patience is
# left to the runner, which takes it from lab.yml.
set -uo pipefail
cd "$(dirname "$0")/../.."
results=$1
vpneval=.venv/bin/vpneval
vpns=${VPNS:-ipip,ipsec,ipsec_user,gre_ipsec,openvpn,ssh_forward,ssh_tun,wireguard,wireguard_go}
traffic=measure=tcp,streams=1,direction=forward
phase() {
    local name=$1 started=$SECONDS code=0
    shift
    "$@" >"$results/$name.out" 2>"$results/$name.err" || code=$?
    echo "phase $name $((SECONDS - started)) $code"
}
run() { $vpneval run "$1" --lab vagrant --profile smallest --quiet --vpn "$vpns" --out "$results/run" --set "$2"; }
vm_seconds() { cat /proc/[0-9]*/stat | awk '/\(qemu-system-x86\)/ {s += $14 + $15} END {print "VMs:", s / 100, "s of CPU"}'; }

# A machine dies while it carries traffic: the run must end with the cause, and the others must be as before.
dies() {
    local folder=$results/dies
    timeout 900 $vpneval run transport --lab vagrant --profile smallest --quiet --vpn none --duration 120 \
        --out "$folder" --set "$traffic" &
    until grep -qs "iperf3 --client" "$folder"/logs/*/commands.log || ! kill -0 $! 2>/dev/null; do sleep 0.5; done
    virsh destroy "$(virsh list --name | grep '_gw2$')" >&2
    wait $!
}
# What a lab would have left on a machine: its ports gone, an agent, a daemon.
traces() {
    vagrant ssh "$1" -c 'for d in eth1 eth2; do test -e /sys/class/net/$d && echo $d; done; ps -eo args' 2>/dev/null
}

phase up vagrant up --parallel
vm_seconds
phase nodes vagrant status
phase transport run transport $traffic
vm_seconds
phase cipher run cipher $traffic,cipher=chacha20-poly1305
phase compression run compression $traffic,compression=on,payload=zeros
phase report $vpneval report "$results/run" --weights tcp_throughput=1 --format json
vm_seconds
if [ "${SITES:-}" ]; then
    phase site .venv/bin/python -m tests.vagrant.two_sites "$results"
    cat "$results/site.out" # its own phases
    phase site-report $vpneval report "$results/site-run" --weights tcp_throughput=1 --format json
    vm_seconds
    phase reboots .venv/bin/python -m tests.vagrant.reboots "$results"
    cat "$results/reboots.out" # its own phases
    vm_seconds
fi
phase dies dies
for machine in host1 gw1 wan host2; do phase "traces-$machine" traces $machine; done
phase destroy vagrant destroy --force
phase left bash -c 'virsh list --all --name; virsh net-list --all --name | grep -vx vagrant-libvirt'
