"""A certificate authority and one certificate for each gateway, made by openssl(1), fresh for every run."""

from collections.abc import Sequence

from runner.lab.node import Node
from runner.lab.site import Site

NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc", "-days", "30")


def certificates(ca: Node, sites: Sequence[Site]) -> dict[str, str]:
    """``ca.crt``, and for each gateway ``gw1.crt`` and ``gw1.key``, as PEM; ECDSA P-256, subject = gateway."""
    here = "/run/ca/"
    ca.run("mkdir", "-pm", "700", here)
    ca.run(
        *("openssl", "req", "-x509", *NEW_KEY, "-subj", "/CN=vpneval CA"),
        *("-keyout", here + "ca.key", "-out", here + "ca.crt"),
    )
    secrets = {"ca.crt": ca.run("cat", here + "ca.crt").stdout}
    for site in sites:
        # req(1): -CA makes it a certificate signed by that authority, not a self-signed one.
        ca.run(
            *("openssl", "req", "-x509", *NEW_KEY, "-CA", here + "ca.crt", "-CAkey", here + "ca.key"),
            *("-subj", f"/CN={site.name}", "-addext", f"subjectAltName=DNS:{site.name}"),
            *("-addext", "basicConstraints=critical,CA:FALSE", "-addext", "keyUsage=digitalSignature"),
            *("-addext", "extendedKeyUsage=serverAuth,clientAuth"),
            *("-keyout", f"{here}{site.name}.key", "-out", f"{here}{site.name}.crt"),
        )
        for end in ("crt", "key"):
            secrets[f"{site.name}.{end}"] = ca.run("cat", f"{here}{site.name}.{end}").stdout
    return secrets
