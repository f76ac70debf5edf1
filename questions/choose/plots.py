"""What a rate costs and delays: the ladders of the VPNs that a choice is made from, with their intervals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np

from runner.choice.device import Device
from runner.design.blocks import Plot
from runner.report import text
from runner.report.plots.drawing import Value, spec_of
from runner.report.plots.drawing import colours as palette
from runner.report.plots.vega import Spec

QUANTILES = (0.025, 0.5, 0.975)
APART = 1.02  # times the rate, from one VPN to the next, so that intervals do not hide each other
SAYS = {"tcp": "TCP", "datagrams": "datagrams"}
Quantity = Literal["cores", "delay_ms"]
TITLES: dict[Quantity, str] = {
    "cores": "Cores of a gateway beyond plain IP",
    "delay_ms": "p95 of the delay beyond plain IP",
}


def ladders(devices: Mapping[str, Device], colours: Mapping[str, str]) -> list[Plot]:
    """Cores of a gateway and added delay against the rate, in TCP and in datagrams."""
    made = [_ladder(devices, colours, kind, quantity) for quantity in TITLES for kind in SAYS]
    return [plot for plot in made if plot]


def _ladder(devices: Mapping[str, Device], colours: Mapping[str, str], kind: str, quantity: Quantity) -> Plot | None:
    values: list[Value] = []
    for at, (vpn, device) in enumerate(devices.items()):
        curve = device.curves.get(kind)
        for rung, rate_bps in enumerate(curve.rates_bps if curve else ()):
            assert curve
            draws = getattr(curve, quantity)[:, rung]
            if np.isnan(draws).any():
                continue
            low, middle, high = (float(f"{value:.4g}") for value in np.quantile(draws, QUANTILES))
            carried = bool(curve.carried[rung])
            says = f"{text.digits(middle)} ({text.digits(low)}–{text.digits(high)})"
            values.append(
                {
                    "vpn": vpn,
                    "rate": float(f"{rate_bps / 1e6 * APART**at:.5g}"),
                    "offered": text.quantity(float(rate_bps), "bit/s"),
                    "carried": "carried" if carried else "not carried",
                    "low": low,
                    "middle": middle,
                    "high": high,
                    "says": says,
                }
            )
    if not any(value["middle"] for value in values):
        return None
    title = TITLES[quantity]
    return Plot(
        key=f"ladder-{kind}-{quantity.split('_', maxsplit=1)[0]}",
        title=f"{title} against the rate, in {SAYS[kind]}",
        alt=f"{title}, against the offered rate in {SAYS[kind]}, a line for each of "
        f"{text.count_noun(len(devices), 'VPN')}, with 95 % intervals.",
        spec=spec_of({"height": 260, "layer": _layers(values, quantity, colours)}),
    )


def _layers(values: list[Value], quantity: Quantity, colours: Mapping[str, str]) -> list[Spec]:
    x = {
        "field": "rate",
        "type": "quantitative",
        "title": "offered rate (Mbit/s)",
        "scale": {"type": "log", "nice": False, "padding": 12},
        "axis": {"values": [10, 30, 100, 300, 1000, 3000, 10000], "format": ",d"},
    }
    cores = quantity == "cores"
    # A difference may be below 0, which has no logarithm.
    scale: Spec = {"type": "symlog", "constant": 0.01 if cores else 0.1}
    y: Spec = {"field": "middle", "type": "quantitative", "title": "cores" if cores else "ms", "scale": scale}
    tooltip = [
        {"field": "vpn", "title": "VPN"},
        {"field": "offered"},
        {"field": "says", "title": f"{'cores' if cores else 'ms'} (95 %)"},
        {"field": "carried", "title": "was it carried?"},
    ]
    vpns = list(dict.fromkeys(str(value["vpn"]) for value in values))
    known = {**palette(vpns), **colours}
    scale_of: Spec = {"domain": vpns, "range": [known[vpn] for vpn in vpns]}
    colour: Spec = {"field": "vpn", "type": "nominal", "title": "VPN", "scale": scale_of}
    shared = {"x": x, "color": colour, "tooltip": tooltip}
    fill = {"condition": {"test": "datum.carried == 'carried'", "value": 1}, "value": 0}
    data = {"values": values}
    return [
        {"data": data, "mark": {"type": "line", "strokeWidth": 1.5}, "encoding": shared | {"y": y}},
        {
            "data": data,
            "mark": {"type": "rule", "strokeWidth": 2, "opacity": 0.5},
            "encoding": shared | {"y": y | {"field": "low"}, "y2": {"field": "high"}},
        },
        {
            "data": data,
            "mark": {"type": "point", "filled": False, "size": 40},
            "encoding": shared | {"y": y},
        },
        {
            "data": data,
            "mark": {"type": "point", "filled": True, "size": 40},
            "encoding": shared | {"y": y, "fillOpacity": fill, "strokeOpacity": fill},
        },
    ]
