"""100 MB through ssh from the gateway to the near host: what the device page takes for a device's IPsec speed."""

from __future__ import annotations

import time
from collections.abc import Mapping

from runner.data.errors import MeasurementError, Unsupported
from runner.data.levels import BASELINE, Levels
from runner.data.metric import bit_rate
from runner.design.profile import Profile
from runner.instruments.instrument import Asked, Whole
from runner.instruments.result import Measured, measurement
from runner.lab.node import Node, proc, wait_until
from runner.lab.shape.site_to_site import Lab
from runner.tunnel.bring_up import Bench
from runner.vpn.plugin import Vpn

HOME = "/run/vpneval/device"
PORT = "2223"
BLOCK_BYTES, BLOCKS = 500_000, 200  # the page's dd
# ssh_config(5): the page has CBC; the others are today's, CTR that of routers (Dropbear).
CIPHERS = {
    "aes-128-cbc": "aes128-cbc",
    "aes-256-cbc": "aes256-cbc",
    "aes-128-ctr": "aes128-ctr",
    "aes-256-ctr": "aes256-ctr",
    "aes-128-gcm": "aes128-gcm@openssh.com",
    "aes-256-gcm": "aes256-gcm@openssh.com",
    "chacha20-poly1305": "chacha20-poly1305@openssh.com",
}
SSHD = f"""ListenAddress {{address}}
Port {PORT}
HostKey {HOME}/host
AuthorizedKeysFile {HOME}/authorized
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
PermitRootLogin prohibit-password
Ciphers {{cipher}}
"""


def device(lab: Lab, cipher: str) -> Measured:
    """Rate of 100 MB of zeros that dd makes on the first gateway and ssh carries to host1, outside of any tunnel.

    Keys are made for this test on the two nodes and go with them. Raises MeasurementError where ssh fails, or not all
    came, and CommandError where it hangs.
    """
    site, host = lab.sites[0], lab.host1
    gateway = lab.gateway(site)
    gateway.run("mkdir", "-p", "/run/sshd")
    known, user = fresh_key(gateway, "host"), fresh_key(host, "user")
    dd = f"dd if=/dev/zero bs={BLOCK_BYTES} count={BLOCKS} status=none"
    gateway.write(f"{HOME}/authorized", f'restrict,command="{dd}" {user}')  # whoever has the key can do this alone
    host.write(f"{HOME}/known", f"[{site.lan_address}]:{PORT} {known}")
    gateway.write(f"{HOME}/sshd_config", SSHD.format(address=site.lan_address, cipher=CIPHERS[cipher]))
    server = gateway.spawn("/usr/sbin/sshd", "-D", "-e", "-f", f"{HOME}/sshd_config", log="device-sshd")
    try:
        wait_until(lambda: f":{PORT} " in gateway.run("ss", "-Hltn").stdout, "sshd listening", deadline_s=5)
        options = ("BatchMode=yes", f"UserKnownHostsFile={HOME}/known", f"IdentityFile={HOME}/user", "Compression=no")
        argv = ["ssh", "-F", "none", "-c", CIPHERS[cipher], "-p", PORT, *(part for o in options for part in ("-o", o))]
        # The bytes are counted where they arrive, so that a transfer that broke off is no fast one.
        counted = ("sh", "-c", '"$@" | wc -c', "sh", *argv, f"root@{site.lan_address}")
        started = time.monotonic()
        done = host.run(*counted, check=False, timeout=120)
        elapsed = time.monotonic() - started
    finally:
        server.stop()
    if done.stdout.strip() != str(BLOCK_BYTES * BLOCKS):
        complaint = (done.stderr or gateway.read_log("device-sshd")).strip()[-300:]
        raise MeasurementError(f"{done.stdout.strip() or 0} bytes came, not {BLOCK_BYTES * BLOCKS}: {complaint}")
    mhz = proc.first_processor(gateway.run("cat", "/proc/cpuinfo").stdout).get("cpu MHz")
    value = measurement("ssh_rate", 8 * BLOCK_BYTES * BLOCKS / elapsed, seconds=round(elapsed, 3), cipher=cipher)
    value.detail["cpu_mhz"] = round(float(mhz)) if mhz else None
    return Measured([value], elapsed)


def fresh_key(node: Node, name: str) -> str:
    """Make a key pair in HOME on ``node``, which is deleted with the lab. Returns its public half."""
    node.defer("rm", "-rf", HOME)
    node.run("mkdir", "-p", "-m", "700", HOME)
    node.run("rm", "-f", f"{HOME}/{name}", f"{HOME}/{name}.pub")
    node.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{HOME}/{name}")
    return node.run("cat", f"{HOME}/{name}.pub").stdout


class SshTransfer(Whole):
    """The transfer of 100 MB by ssh, outside of any tunnel."""

    name = "device"
    factors = {"device_cipher": Levels(tuple(CIPHERS), default="aes-128-cbc", told="".format)}
    metrics = (
        bit_rate(
            name="ssh_rate",
            title="100 MB through ssh",
            definition="On the gateway, dd sends 100 MB of zeros through ssh to the near host, without any VPN. The "
            "value is 800 Mbit divided by the time that this takes. Connection set-up is included.",
            source="the device page, Hardware performance; ssh_config(5) Ciphers",
        ),
    )

    def refuses(self, lab: Lab, vpn: Vpn, params: Mapping[str, str]) -> Unsupported | None:
        return None if vpn.name == BASELINE else Unsupported("100 MB through ssh are measured without any VPN")

    def expected_s(self, params: Mapping[str, str], profile: Profile, *, first: bool) -> float:
        return 1.5

    def openssl_cipher(self, params: Mapping[str, str]) -> str:
        return params["device_cipher"]

    def once(self, bench: Bench, asked: Asked) -> Measured:
        return device(bench.lab, asked.params["device_cipher"])
