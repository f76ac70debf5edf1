"""What a lab is made of: kernel, CPU, crypto, offloads, clock; everything that a number depends on but the VPN."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import asdict
from typing import Any

from runner.data.errors import CommandError
from runner.data.guest import guest_name
from runner.lab.node import Node, Runs, proc
from runner.lab.node.answers import understood
from runner.lab.node.iproute import objects
from runner.lab.readings.calibration import calibration
from runner.lab.readings.hardware import UNKNOWN, hardware
from runner.lab.readings.loads import SHARED
from runner.lab.shape import congestion
from runner.lab.shape.site_to_site import Lab

CPU_FLAGS = ("aes", "pclmulqdq", "avx2", "avx512f", "vaes", "vpclmulqdq", "sha_ni", "pmull", "sha2")
OFFLOADS = (
    "rx-checksumming",
    "tx-checksumming",
    "tcp-segmentation-offload",
    "generic-segmentation-offload",
    "generic-receive-offload",
    "tx-udp-segmentation",
    "rx-udp-gro-forwarding",
)
# What the VPNs ask of the kernel's crypto API, /proc/crypto's names.
KERNEL_CRYPTO = re.compile(
    r"(rfc4106\()?gcm\(|cbc\((aes|des3_ede|blowfish)\)|ctr\(aes|hmac\(sha(1|256)\)|chacha20|ghash$"
)
FILES = {
    "cpuinfo": "/proc/cpuinfo",
    "stat": "/proc/stat",
    "crypto": "/proc/crypto",
    "rmem_max": "/proc/sys/net/core/rmem_max",
}
# Level -> openssl-speed(1)'s words for it. An AEAD is measured with its tag.
SPEED = {
    "aes-128-ctr": ("-evp", "aes-128-ctr"),
    "aes-256-ctr": ("-evp", "aes-256-ctr"),
    "aes-128-cbc": ("-evp", "aes-128-cbc"),
    "aes-192-cbc": ("-evp", "aes-192-cbc"),
    "aes-256-cbc": ("-evp", "aes-256-cbc"),
    "3des-cbc": ("-evp", "des-ede3-cbc"),
    "blowfish-128-cbc": ("-evp", "bf-cbc", "-provider", "legacy", "-provider", "default"),
    "rc4-128": ("-evp", "rc4", "-provider", "legacy", "-provider", "default"),
    "aes-128-gcm": ("-evp", "aes-128-gcm", "-aead"),
    "aes-256-gcm": ("-evp", "aes-256-gcm", "-aead"),
    "chacha20-poly1305": ("-evp", "chacha20-poly1305", "-aead"),
    "hmac-sha1": ("-hmac", "sha1"),
    "hmac-sha256": ("-hmac", "sha256"),
}
SPEED_BYTES = 1408  # a full packet's payload in most tunnels, in whole blocks


def facts(lab: Lab) -> dict[str, Any]:
    """The facts about this lab: kernel, CPU, cores, memory, crypto, clock; offloads, MTU and queues of its links.

    The links and ``machines`` are those of the whole lab, the congestion control is the near host's; all else is the
    first gateway's, which in a namespace lab is this machine. What a machine does not report is "unknown". Raises
    CannotRunHere where a machine's answer cannot be read.
    """
    with understood(lab.gateway(lab.sites[0]).name):
        return _facts(lab)


def _facts(lab: Lab) -> dict[str, Any]:
    gateway = lab.gateway(lab.sites[0])
    texts = {name: text.strip() for name, text in read(gateway, FILES).items()}
    cpu = proc.first_processor(texts["cpuinfo"])
    flags = cpu.get("flags", cpu.get("Features", "")).split()  # Features on ARM
    machines = hardware(lab)
    here = machines[SHARED if lab.shared_kernel else gateway.name]
    every = links(lab)
    wan = next(link for link in every if f"{gateway.name} {lab.sites[0].wan_interface}" in link["interfaces"])
    return {
        "kind": lab.kind,
        **({"path": asdict(lab.path)} if lab.path else {}),
        "kernel": here["kernel"],
        **({"guest": guest_name()} if guest_name() else {}),
        "machine": gateway.run("uname", "-m").stdout.strip(),
        "cpu": here["cpu"],
        "cpu_flags": [flag for flag in CPU_FLAGS if flag in flags],
        **{name: here[name] for name in ("cores", "smt", "governor")},
        "hypervisor": here["maker"].replace(UNKNOWN, "present, unnamed")
        if "hypervisor" in flags
        else "none seen"
        if "flags" in cpu
        else "unknown",  # only x86 has the flag
        "steal_ratio_since_boot": steal_ratio(texts["stat"]),
        **{name: here[name] for name in ("memory_bytes", "clock_source")},
        "kernel_crypto": crypto_drivers(texts["crypto"]) or "unknown",
        "congestion_control": congestion.default(lab.host1) or "unknown",
        "rmem_max": texts["rmem_max"] or "unknown",
        "nodes_share_cores": lab.shared_kernel,
        **({"calibration": calibration()} if lab.shared_kernel else {}),
        "links": every,
        "machines": machines,
        "wan_ip_version": lab.sites[0].path_version,
        "wan_mtu": wan["mtu"],
        "wan_link_bps": "unknown" if lab.shared_kernel else link_bps(gateway, lab.sites[0].wan_interface),
        "wan_offloads": {name: "on" if name in wan["offloads"] else "off" for name in OFFLOADS},
        "bring_up_s": round(lab.bring_up_s, 3),
    }


def read(node: Node, files: Mapping[str, str]) -> dict[str, str]:
    """Files of a node in one command: name -> text, empty for a file that is not there."""
    shown = node.run("head", "-v", "-c", "1000000", *files.values(), check=False).stdout
    texts = dict.fromkeys(files, "")
    names = {path: name for name, path in files.items()}
    parts = re.split(r"^==> (\S+) <==\n", shown, flags=re.MULTILINE)
    texts.update({names[path]: text for path, text in zip(parts[1::2], parts[2::2], strict=True) if path in names})
    return texts


def link_bps(node: Node, interface: str) -> int | str:
    """The rate of the node's interface in bit/s, as its driver reports it (sysfs-class-net); a virtual one has none."""
    megabit_s = read(node, {"speed": f"/sys/class/net/{interface}/speed"})["speed"].strip()
    return int(megabit_s) * 1_000_000 if megabit_s.isdecimal() and megabit_s != "0" else "unknown"


def steal_ratio(stat: str) -> float | str:
    """The share of all CPU time since boot that the hypervisor took (proc_stat(5))."""
    ticks = proc.cpu_ticks(stat)
    return round(ticks[7] / sum(ticks), 4) if any(ticks) else "unknown"


def crypto_drivers(crypto: str) -> dict[str, str]:
    """The driver that the kernel would take for each algorithm a VPN may ask for, from /proc/crypto's text.

    Of several drivers it is the one with the highest priority. An algorithm is missing until something has used it.
    """
    best = {entry["name"]: entry for entry in reversed(proc.algorithms(crypto)) if KERNEL_CRYPTO.match(entry["name"])}
    return {name: f"{entry['driver']} (priority {entry['priority']})" for name, entry in sorted(best.items())}


def links(lab: Lab) -> list[dict[str, Any]]:
    """The lab's interfaces, those that are alike together: ``interfaces``, ``mtu``, ``qdisc``, ``offloads`` (on)."""
    alike: dict[str, dict[str, Any]] = {}
    for node in lab.nodes.values():
        for link in objects(node, "ip", "-json", "link", "show"):
            with understood(node.name):
                name, mtu = link["ifname"], link["mtu"]
            if name == "lo":
                continue
            features = node.run("ethtool", "-k", name, check=False).stdout
            states = (line.strip().partition(": ") for line in features.splitlines())
            on = [feature for feature, _, state in states if feature in OFFLOADS and state.startswith("on")]
            queue = node.run("tc", "qdisc", "show", "dev", name, check=False).stdout.splitlines()
            qdisc = "; ".join(
                re.sub(r"^qdisc | [0-9a-f]+:(?= )| dev \S+| refcnt \d+", "", line).strip() for line in queue
            )
            settings = {"mtu": mtu, "qdisc": qdisc or link.get("qdisc", "unknown"), "offloads": on}
            same = alike.setdefault(json.dumps(settings), {"interfaces": [], **settings})
            same["interfaces"].append(f"{node.name} {name}")
    return list(alike.values())


def openssl_bps(machine: Runs, levels: Collection[str], known: Mapping[str, float]) -> dict[str, float]:
    """Level -> bits that the machine encrypts or authenticates with OpenSSL in a CPU second, in packets of 1408 bytes.

    It measures a second for each of ``levels`` (ciphers and integrities) that is not ``known`` yet. What OpenSSL does
    not have is left out (openssl-speed(1)).
    """
    speeds = dict(known)
    for level in [name for name in SPEED if name in levels and name not in known]:
        argv = ("openssl", "speed", *SPEED[level], "-bytes", str(SPEED_BYTES), "-seconds", "1", "-mr")
        try:
            output = machine.run(*argv, check=False, timeout=15).stdout
        except CommandError:
            continue  # it hung: not known
        result = re.search(r"^\+F:.*:([0-9]{1,15}(?:\.[0-9]+)?)$", output, flags=re.MULTILINE)
        if result and (bps := round(float(result[1]) * 8)):
            speeds[level] = bps
    return speeds
