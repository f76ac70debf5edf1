"""The runbook: complete, and without a secret in it."""

import re

import pytest

from runner.catalogue import load_vpn, vpn_names
from runner.data.errors import UsageError
from runner.lab.site_to_site import SITES
from runner.vpn.recipe import Paper, recipe

EVERY = pytest.mark.parametrize("name", vpn_names())


def text_of(name: str) -> str:
    vpn = load_vpn(name)
    return recipe(vpn, vpn.comparable)


@EVERY
def test_every_key_and_certificate_has_a_placeholder_and_no_content(name: str) -> None:
    vpn, text = load_vpn(name), text_of(name)
    secrets = vpn.secrets(Paper("ca"), SITES)
    assert set(re.findall(r"<([\w.]+\.(?:key|crt|pub))>", text)) <= set(secrets)
    for site in SITES:
        own = {secret for secret in secrets if secret.startswith(site.name) and secret.endswith(".key")}
        assert not own or any(f"<{secret}>" in text for secret in own)
    assert "BEGIN" not in text
    assert "<output of" not in text


@EVERY
def test_the_commands_that_make_keys_are_there_and_those_that_read_them_are_not(name: str) -> None:
    keys = text_of(name).partition("## Keys")[2].partition("## gw2")[0]
    if load_vpn(name).secrets(Paper("ca"), SITES):
        makers = (
            r"^(openssl (req|rand)|ssh-keygen|wg genkey|tincd .*--generate-keys|fastd --generate-key|nebula-cert sign)"
        )
        assert re.search(makers, keys, re.MULTILINE)
        assert not re.search(r"^cat ", keys, re.MULTILINE)
    else:
        assert keys == ""


@EVERY
def test_both_gateways_with_the_listening_one_first(name: str) -> None:
    text = text_of(name)
    assert [line for line in text.splitlines() if re.fullmatch(r"## gw\d", line)] == ["## gw2", "## gw1"]
    for site in SITES:
        part = text.partition(f"## {site.name}\n")[2].partition("\n\n#")[0]
        assert len(part.splitlines()) >= 1, f"{site.name} has nothing to do"
    assert "net.ipv4.ip_forward=1" in text


@EVERY
def test_files_are_for_root_only(name: str) -> None:
    written = re.findall(r"install -D -m (\d+) /dev/stdin (\S+) <<'END'", text_of(name))
    assert {mode for mode, _ in written} <= {"600"}
    assert text_of(name).count("\nEND") == len(written)


@EVERY
def test_questions_are_not_commands_to_type(name: str) -> None:
    assert not re.search(r"^(test|ss|find) ", text_of(name), re.MULTILINE)


def test_the_last_line_says_where_the_far_host_is() -> None:
    assert text_of("openvpn").endswith("# Then 10.1.0.2 reaches 10.2.0.2 at 10.2.0.2.\n")
    assert text_of("ssh_forward").endswith("# Then 10.1.0.2 reaches 10.2.0.2 at 10.1.0.1.\n")


@pytest.mark.parametrize(
    ("name", "levels", "said"),
    [
        ("ssh_tun", {"cipher": "null"}, "(asked: cipher null; offered: aes-128-cbc"),
        ("wireguard", {"cipher": "aes-128-cbc"}, "one cipher suite"),
        ("ipsec_user", {"compression": "on"}, "no IPComp (asked: compression on; offered: off)"),
    ],
)
def test_a_level_that_the_vpn_lacks(name: str, levels: dict[str, str], said: str) -> None:
    vpn = load_vpn(name)
    with pytest.raises(UsageError) as error:
        recipe(vpn, {**vpn.comparable, **levels})
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("name", "integrity"), [("openvpn", "aead"), ("ssh_forward", "aead"), ("ipsec", "aead"), ("wireguard", "hmac-sha1")]
)
def test_an_integrity_that_does_not_go_with_the_cipher(name: str, integrity: str) -> None:
    vpn = load_vpn(name)
    with pytest.raises(UsageError, match=integrity):
        recipe(vpn, {**vpn.comparable, "integrity": integrity})
