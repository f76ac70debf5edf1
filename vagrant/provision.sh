#!/usr/bin/env bash
# In a plain Debian machine, as root: the lab's packages by apt, from the lab's own list, and none of their services.
#
#     vagrant/provision.sh PACKAGES_DIR      the folder with common.txt and a list for each Debian release
set -euo pipefail
lists=$1
# shellcheck source=/dev/null
. /etc/os-release
if [ ! -e "$lists/$VERSION_CODENAME.txt" ]; then
    echo "vpneval: no package list for $PRETTY_NAME; there are: $(cd "$lists" && echo *.txt)" >&2
    exit 3
fi
packages=$(sed 's/#.*//' "$lists/common.txt" "$lists/$VERSION_CODENAME.txt" | xargs)
enabled() { systemctl list-unit-files --state=enabled --no-legend --no-pager | awk '{print $1}' | sort; }

# No service starts while its package is set up (invoke-rc.d(8)); what was enabled for the next boot is disabled after.
if [ ! -e /usr/sbin/policy-rc.d ]; then
    printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
    chmod +x /usr/sbin/policy-rc.d
    trap 'rm /usr/sbin/policy-rc.d' EXIT
fi
before=$(enabled)
export DEBIAN_FRONTEND=noninteractive
apt-get -q update
# shellcheck disable=SC2086 # a list of words
apt-get -qy install --no-install-recommends $packages
for unit in $(comm -13 <(echo "$before") <(enabled)); do
    case "$unit" in
    ssh*) ;; # Vagrant comes in by it
    *) systemctl disable "$unit" ;;
    esac
done
