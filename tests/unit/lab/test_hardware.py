"""The facts of every machine of a lab, from what a server's files and ethtool say."""

from __future__ import annotations

from typing import Any

from runner.lab.readings.hardware import hardware, ring
from runner.lab.shape.site_to_site import SITES, Lab
from tests.unit.helpers import Answers

SERVER = """6.1.0-28-amd64
cores:2
/proc/cpuinfo:processor\t: 0
/proc/cpuinfo:model name\t: AMD EPYC 7302P 16-Core Processor
/proc/cpuinfo:cpu MHz\t\t: 1498.112
/proc/cpuinfo:processor\t: 1
/proc/cpuinfo:model name\t: AMD EPYC 7302P 16-Core Processor
/proc/cpuinfo:cpu MHz\t\t: 3293.021
/proc/meminfo:MemTotal:       65689432 kB
/proc/meminfo:MemFree:        60000000 kB
/proc/interrupts:            CPU0       CPU1
/proc/interrupts:  38:      11    0   PCI-MSI 1048576-edge      xhci_hcd
/proc/interrupts: 100:    9000    0   PCI-MSI 2097152-edge      ens2f0-TxRx-0
/proc/interrupts: 101:       4 7000   PCI-MSI 2097153-edge      ens2f0-TxRx-1
/proc/interrupts: 102:       0    0   PCI-MSI 2097154-edge      ens2f0
/proc/interrupts: NMI:       1    2   Non-maskable interrupts
/sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq:3000000
/sys/devices/system/cpu/cpu1/cpufreq/scaling_max_freq:3300000
/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor:schedutil
/sys/devices/system/cpu/smt/active:1
/sys/devices/system/clocksource/clocksource0/current_clocksource:tsc
/sys/class/dmi/id/sys_vendor:Supermicro
/sys/class/dmi/id/product_name:H11SSL-i
virtualization:none
/sys/class/net/wan0/queues/rx-0/rps_cpus:0000,00000003
/sys/class/net/wan0/queues/rx-1/rps_cpus:0000,00000000
/sys/class/net/lo/queued: /sys/class/net/lo/queues/rx-0 /sys/class/net/lo/queues/tx-0
/sys/class/net/wan0/queued: /sys/class/net/wan0/queues/rx-0 /sys/class/net/wan0/queues/rx-1
/sys/class/net/wan0/queued: /sys/class/net/wan0/queues/tx-0
/sys/class/net/wan0/irqs: /sys/class/net/wan0/device/msi_irqs/100 /sys/class/net/wan0/device/msi_irqs/101
/sys/class/net/wan0/bus:../../../0000:41:00.0
/sys/class/net/wan0/driver:driver: ixgbe
/sys/class/net/wan0/driver:version: 6.1.0-28-amd64
/sys/class/net/wan0/ring:Ring parameters for wan0:
/sys/class/net/wan0/ring:Pre-set maximums:
/sys/class/net/wan0/ring:RX:\t\t4096
/sys/class/net/wan0/ring:TX:\t\t4096
/sys/class/net/wan0/ring:Current hardware settings:
/sys/class/net/wan0/ring:RX:\t\t512
/sys/class/net/wan0/ring:RX Mini:\tn/a
/sys/class/net/wan0/ring:TX:\t\t256
"""
GUEST = """6.12.1
cores:1
/proc/cpuinfo:processor\t: 0
/proc/interrupts:            CPU0       CPU1
/proc/interrupts:  38:       0  157565   PCI-MSIX-0000:00:03.0   1-edge      virtio2-input.0
/proc/interrupts:  41:   10958       0   PCI-MSIX-0000:00:04.0   1-edge      virtio3-rx
/sys/class/net/wan0/queued: /sys/class/net/wan0/queues/rx-0 /sys/class/net/wan0/queues/tx-0
/sys/class/net/wan0/irqs: /sys/class/net/wan0/device/msi_irqs/*
/sys/class/net/wan0/bus:../../../virtio2
/sys/class/net/tun0/queued: /sys/class/net/tun0/queues/rx-0 /sys/class/net/tun0/queues/tx-0
"""


def lab_of(shared: bool, **looks: str) -> Lab:
    nodes: dict[str, Any] = {name: Answers({"sh -c": look}) for name, look in looks.items()}
    return Lab(nodes, SITES, shared_kernel=shared)


def test_every_machine_is_told() -> None:
    found = hardware(lab_of(False, gw1=SERVER, gw2=GUEST))
    assert list(found) == ["gw1", "gw2"]
    assert {name: value for name, value in found["gw1"].items() if name != "ports"} == {
        "kernel": "6.1.0-28-amd64",
        "cpu": "AMD EPYC 7302P 16-Core Processor",
        "cores": 2,
        "memory_bytes": 65689432 * 1024,
        "frequency_mhz": [1498, 3293],
        "highest_frequency_mhz": 3300,
        "governor": "schedutil",
        "smt": "on",
        "maker": "Supermicro H11SSL-i",
        "clock_source": "tsc",
        "virtualization": "none",
    }
    assert found["gw1"]["ports"] == {
        "wan0": {
            "driver": "ixgbe",
            "queues": [2, 1],
            "rps": {"rx-0": "0000,00000003"},
            "ring": {"RX": 512, "TX": 256},
            "interrupts": {"ens2f0-TxRx-0": [0], "ens2f0-TxRx-1": [0, 1]},
        }
    }


def test_a_machine_of_its_own_is_calibrated() -> None:
    """By its own kernel; where that is shared, once (facts)."""
    costs = '{"system_call_us": 0.39, "packet_us": 14}'
    for shared in (False, True):
        for said, found in ((costs, {"system_call_us": 0.39, "packet_us": 14.0}), ("[]", None), ("no JSON", None)):
            nodes: dict[str, Any] = {"gw1": Answers({"sh -c": SERVER, "python3 -IS -": said})}
            (machine,) = hardware(Lab(nodes, SITES, shared_kernel=shared)).values()
            assert machine.get("calibration") == (None if shared else found)


def test_what_a_machine_does_not_tell_is_unknown() -> None:
    found = hardware(lab_of(False, gw2=GUEST))["gw2"]
    assert (found["cpu"], found["governor"], found["frequency_mhz"], found["maker"]) == ("unknown",) * 4
    assert found["ports"]["wan0"]["interrupts"] == {"virtio2-input.0": [1]}
    assert found["ports"]["wan0"]["driver"] == "unknown"
    assert found["ports"]["tun0"]["driver"] == "virtual"
    assert hardware(lab_of(False, gw1=""))["gw1"]["kernel"] == "unknown"


def test_nodes_that_share_a_kernel_are_one_machine_with_all_their_ports() -> None:
    found = hardware(lab_of(True, gw1=SERVER, gw2=GUEST))
    assert list(found) == ["this machine"]
    assert list(found["this machine"]["ports"]) == ["gw1 wan0", "gw2 tun0", "gw2 wan0"]


def test_a_port_without_a_ring_has_none() -> None:
    assert ring(["netlink error: Operation not supported"]) == {}
