"""A certificate authority and one certificate for each gateway, made by openssl(1), fresh for every run."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from runner.lab.node import Node
from runner.lab.shape.site import Site

NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc")
DAYS = 30  # of a lab's certificates; `recipe --days` sets others
LONGER_DAYS = 3650  # the CA of a recipe is valid so much longer than what it signs, for the certificates to come


def days_of(ca: Node) -> int:
    """How long what is made on ``ca`` is to be valid; 0: nobody says."""
    return int(getattr(ca, "days", 0))


def ca_days_of(ca: Node) -> int:
    """The same of the CA itself."""
    return days_of(ca) and days_of(ca) + LONGER_DAYS


def has_ca(ca: Node) -> bool:
    """Is the CA of an earlier time there, to sign again?"""
    return bool(getattr(ca, "has_ca", False))


def seconds_of(ca: Node) -> int:
    """How long the gateways' certificates are to be valid, where a test wants them to expire; else 0."""
    return int(getattr(ca, "lasts_s", 0))


def certificates(ca: Node, sites: Sequence[Site]) -> dict[str, str]:
    """``ca.crt``, and for each gateway ``gw1.crt`` and ``gw1.key``, as PEM; ECDSA P-256, subject = gateway."""
    here, key = "/root/vpneval-ca/", (*NEW_KEY, "-days", str(days_of(ca) or DAYS))
    ca.run("mkdir", "-pm", "700", here)
    if not has_ca(ca):
        ca.run(
            *("openssl", "req", "-x509", *NEW_KEY, "-days", str(ca_days_of(ca) or DAYS), "-subj", "/CN=vpneval CA"),
            *("-keyout", here + "ca.key", "-out", here + "ca.crt"),
        )
    secrets = {"ca.crt": ca.run("cat", here + "ca.crt").stdout}
    if seconds_of(ca):  # req(1) of OpenSSL 3.4
        expires = datetime.now(UTC) + timedelta(seconds=seconds_of(ca))
        key = *NEW_KEY, "-not_after", f"{expires:%Y%m%d%H%M%SZ}"
    for site in sites:
        # req(1): -CA makes it a certificate signed by that authority, not a self-signed one.
        ca.run(
            *("openssl", "req", "-x509", *key, "-CA", here + "ca.crt", "-CAkey", here + "ca.key"),
            *("-subj", f"/CN={site.name}", "-addext", f"subjectAltName=DNS:{site.name}"),
            *("-addext", "basicConstraints=critical,CA:FALSE", "-addext", "keyUsage=digitalSignature"),
            *("-addext", "extendedKeyUsage=serverAuth,clientAuth"),
            *("-keyout", f"{here}{site.name}.key", "-out", f"{here}{site.name}.crt"),
        )
        for end in ("crt", "key"):
            secrets[f"{site.name}.{end}"] = ca.run("cat", f"{here}{site.name}.{end}").stdout
    return secrets
