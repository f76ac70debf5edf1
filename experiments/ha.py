"""High availability, as in the ClusterIP paper and beyond: one of two gateways fails, the other takes over."""

from collections.abc import Mapping

from runner.design.experiment import ALL, Experiment, measuring


def sensible(params: Mapping[str, str]) -> bool:
    """Without a second gateway there is nothing to fail over to."""
    return params["redundancy"] != "off" or params["gateway_failure"] == "none"


EXPERIMENT = Experiment(
    name="ha",
    question="How long is a site cut off when one of its two gateways fails, and again when that gateway returns?",
    method="Two gateways share one address. keepalived (VRRP, with advertisements every second or every 100 ms) "
    "moves the address. The gateway that gets it brings the tunnel up anew, or continues with the state "
    "that strongSwan's plugin ha has handed over. With CLUSTERIP, as in the paper, both gateways have the "
    "address, and the plugin's heartbeats decide. A thousand datagrams a second go each way, and a "
    "download of 10 MB at 2 MB/s, while one thing fails at a random moment: the active gateway's WAN "
    "interface, the gateway, its VPN daemon or the link between the two gateways; or the preferred "
    "gateway returns. A capture gives the handover time, the lost datagrams give the outage. Without a "
    "failure, 50 MB are downloaded. The profile thesis causes 30 failures of each kind, quick 3, smallest "
    "1.",
    source="ClusterIP paper, Section VI (second and third test); RFC 9568 (VRRP); RFC 6412, RFC 6413, RFC 6414",
    metrics=("handover_ms", "failover_outage_ms", "failover_download_s", "ha_download_s", "ha_user_s", "ha_system_s"),
    traffic=(measuring("failover"),),
    vary_traffic={"redundancy": ALL, "gateway_failure": ALL},
    sensible=sensible,
    only=("ipsec", "ipsec_user", "wireguard", "wireguard_go", "openvpn"),
)
