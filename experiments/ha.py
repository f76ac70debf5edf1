"""High availability, as in the ClusterIP paper and beyond: one of two gateways fails, the other takes over."""

from collections.abc import Mapping

from runner.design.experiment import ALL, Experiment, measuring


def sensible(params: Mapping[str, str]) -> bool:
    """Without a second gateway there is nothing to fail over to."""
    return params["redundancy"] != "off" or params["gateway_failure"] == "none"


EXPERIMENT = Experiment(
    name="ha",
    question="How long is a site cut off when one of its two gateways fails, and again when that gateway returns?",
    method="Two gateways behind one address; keepalived (VRRP, advertisements every second, or every 100 ms) moves the "
    "address, and the gateway that gets it brings the tunnel up anew, or goes on with what strongSwan's ha plugin has "
    "handed over; or both have it, and CLUSTERIP and the plugin's heartbeats decide, as in the paper. A thousand "
    "datagrams a second each way, and a download of 10 MB at 2 MB/s, while the active one's WAN interface is cut, the "
    "gateway dies, its VPN daemon dies, the link between the two is cut, or the preferred gateway returns; at a random "
    "moment each. Handover by capture, outage by loss. And 50 MB while nothing fails. "
    "30 failures of each kind in the thesis profile, 3 in quick, 1 in smallest.",
    source="ClusterIP paper, Section VI (second and third test); RFC 9568 (VRRP); RFC 6412, RFC 6413, RFC 6414",
    metrics=("handover_ms", "failover_outage_ms", "failover_download_s", "ha_download_s", "ha_user_s", "ha_system_s"),
    traffic=(measuring("failover"),),
    vary_traffic={"redundancy": ALL, "gateway_failure": ALL},
    sensible=sensible,
    only=("ipsec", "ipsec_user", "wireguard", "wireguard_go", "openvpn"),
)
