#!/bin/bash
# Is the tunnel up? Ends with 0 if it is. If not, it says what was seen, and ends with 1.
set -eu
if [ ! -e /etc/vpneval/gateway.sh ]; then
    echo "The tunnel is not set up here: run up.sh." >&2
    exit 1
fi
. /etc/vpneval/gateway.sh

works() { # sets failed
    local address port
    for address in $there; do
        failed="no answer from $address to a ping from $here"
        if ! ping -c 1 -W 1 -I "$here" "$address" > /dev/null 2>&1; then return 1; fi
    done
    for port in $listens; do
        failed="nothing listens on TCP port $port"
        if ! ss -Hltn "sport = :$port" | grep -q .; then return 1; fi
    done
}

for attempt in {1..10}; do
    if works; then
        echo "The tunnel is up."
        exit 0
    fi
    sleep 1
done
echo "The tunnel is down: $failed. The last messages here:" >&2
if [ -d /run/systemd/system ]; then journalctl --no-pager --unit vpneval-tunnel --lines 20 >&2
else tail -n 20 /var/log/vpneval-tunnel.log >&2 || true; fi
exit 1
