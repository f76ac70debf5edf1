"""The ClusterIP paper's three tests by HTTP: what redundancy costs, what a user sees of it, and of a failover."""

from collections.abc import Mapping

from runner.design.experiment import Experiment, measuring
from runner.design.profile import Profile
from runner.papers.judges.ha_http import AES, CROSSED, GB, SERVICE
from runner.vpn.plugin import Vpn


def sensible(params: Mapping[str, str]) -> bool:
    """Only a second gateway helps in a failure, and only a download that still goes on meets one."""
    lasts = params["download_limit"] != "off" or int(params["download_bytes"]) > int(SERVICE)
    return params["gateway_failure"] == "none" or (params["redundancy"] != "off" and lasts)


def is_wanted(vpn: Vpn, params: Mapping[str, str], profile: Profile) -> bool:
    """The paper's tests, each with its file; a file of another size, as in a short profile, stands for all of them."""
    size, null, other = params["download_bytes"], params["cipher"] == "null", params["integrity"] != AES["integrity"]
    if other and (null or params["cpus"] != "1" or size in (SERVICE, CROSSED)):
        return False  # today's integrity is beside the paper's where it costs most, once
    if params["gateway_failure"] == "none" and params["download_limit"] == "off":
        return size not in (SERVICE, CROSSED) or not null  # both ciphers are the first test's
    return params["redundancy"] != "off" and not null and not other and size not in (GB, SERVICE)


EXPERIMENT = Experiment(
    name="ha_http",
    question="What does a second gateway cost a download, and how long does the download wait when the first "
    "gateway fails?",
    method="The tunnels use AES128-SHA1 and NULL-SHA1 (and once AES128-SHA256), on 1 to 4 CPUs: with one "
    "gateway, with CLUSTERIP as in the paper, and with keepalived and strongSwan's plugin ha. HTTP "
    "downloads have 1 GB (cost), 50 MB (service) and 500 MB. During the last one, the active gateway's "
    "WAN interface is cut after 5 to 6 s; it runs at full speed and at 2 MB/s. The short profiles "
    "download 20 MB each time and cut only the download at 2 MB/s. CPU time is that of the whole lab and, by "
    "control groups, that of each node's processes. With the kernel's ESP, each port of the lab has a kernel thread "
    "(threaded NAPI), and a gateway's CPU time includes those of its ports.",
    source="ClusterIP paper, Section VI (its three tests), figures 3 to 6; RFC 6414",
    metrics=(
        *("ha_download_s", "ha_user_s", "ha_system_s", "ha_client_user_s", "ha_client_system_s"),
        *("ha_gateway_cpu_s", "ha_passive_cpu_s", "failover_download_s", "handover_ms"),
    ),
    traffic=(measuring("failover", gateway_failure="none", download_bytes="20000000", download_limit="off", cpus="1"),),
    vary={"cipher": ("aes-128-cbc", "null"), "integrity": ("hmac-sha1", "hmac-sha256")},
    vary_traffic={
        "redundancy": ("off", "ha_sync", "clusterip"),
        "gateway_failure": ("none", "interface"),
        "download_bytes": ("20000000", SERVICE, CROSSED, GB),
        "download_limit": ("off", "2000000"),
        "cpus": ("1", "2", "3", "4"),
    },
    only=("ipsec", "ipsec_user"),
    keep=("redundancy", "gateway_failure"),
    sensible=sensible,
    wanted=is_wanted,
)
