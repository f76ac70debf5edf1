"""The lab's facts from what files and tools say; what a machine does not tell is unknown, never guessed."""

import json
from pathlib import Path

import pytest

from runner.catalogue import load_experiment
from runner.data.crypto_limit import crypto_limit
from runner.data.errors import UsageError
from runner.data.levels import AES_CBC, LEVELS, NO_CIPHER
from runner.data.store import Store
from runner.lab.readings.facts import FILES, SPEED, crypto_drivers, openssl_bps, read, steal_ratio
from runner.lab.software.image import Image
from runner.sweep.run_record import describe, measured_vpns, save_packages
from tests.unit.asking import request
from tests.unit.helpers import Answers, captured
from tests.unit.synthetic import make_run

MR = "+DT:AES-128-CBC:1:1408\n+R:916518:AES-128-CBC:1.000000\n+H:1408\n+F:25:AES-128-CBC:1290457344.00\n"
CBC_BPS, HMAC_BPS = 4e9, 6e9


def test_openssl_names_are_levels_and_every_cipher_of_the_sweep_has_one() -> None:
    assert set(SPEED) <= {*LEVELS["cipher"], *LEVELS["integrity"]}
    assert set(load_experiment("cipher").vary["cipher"]) <= set(SPEED)


def test_kernel_crypto_names_the_driver_of_the_highest_priority() -> None:
    text = captured("proc-crypto.txt")
    found = crypto_drivers(text)
    assert found["cbc(aes)"] == "cbc(ecb(aes-fixed-time)) (priority 101)"
    assert "ecb(aes)" not in found
    assert "crc32c" not in found
    faster = text + "\nname         : cbc(aes)\ndriver       : cbc-aes-aesni\npriority     : 400\ninternal     : no\n"
    assert crypto_drivers(faster)["cbc(aes)"] == "cbc-aes-aesni (priority 400)"
    hidden = faster.replace("internal     : no\n", "internal     : yes\n")
    assert crypto_drivers(hidden) == {}
    assert crypto_drivers("") == {}


def test_steal_since_boot() -> None:
    assert steal_ratio("cpu  10 0 10 60 0 0 0 20 0 0\ncpu0 …") == 0.2
    assert steal_ratio("") == "unknown"
    assert steal_ratio("cpu  0 0 0 0 0 0 0 0 0 0\n") == "unknown"


def test_files_that_are_not_there_are_empty() -> None:
    node = Answers({"head -v -c": "==> /proc/stat <==\ncpu  5 0\n\n==> /proc/crypto <==\nname : x\n"})
    found = read(node, FILES)
    assert found["stat"] == "cpu  5 0\n\n"
    assert found["crypto"] == "name : x\n"
    assert found["rmem_max"] == found["cpuinfo"] == ""


def test_openssl_is_asked_once_for_what_is_needed() -> None:
    gateway = Answers({"openssl speed -evp aes-128-cbc": MR})
    known = {"hmac-sha256": HMAC_BPS}
    found = openssl_bps(gateway, {"aes-128-cbc", "hmac-sha256", "none", "aead"}, known)
    assert found == {"hmac-sha256": HMAC_BPS, "aes-128-cbc": round(1290457344.00 * 8)}
    assert len(gateway.ran) == 1
    assert openssl_bps(gateway, {"aes-128-cbc", "hmac-sha256"}, found) == found
    assert len(gateway.ran) == 1
    assert openssl_bps(gateway, {"3des-cbc"}, {}) == {}  # this openssl has none: left out


def test_the_crypto_limit_adds_the_times_of_cipher_and_hmac() -> None:
    run = make_run(())
    run.lab["openssl_bps"] = {"aes-128-cbc": CBC_BPS, "hmac-sha256": HMAC_BPS, "aes-128-gcm": 9e9}
    assert crypto_limit(run, AES_CBC) == pytest.approx(2.4e9)
    assert crypto_limit(run, {"cipher": "aes-128-gcm", "integrity": "aead"}) == 9e9
    assert crypto_limit(run, NO_CIPHER) is None
    assert crypto_limit(run, {"cipher": "null", "integrity": "hmac-sha256"}) is None
    assert crypto_limit(run, {"cipher": "3des-cbc", "integrity": "hmac-sha256"}) is None
    assert crypto_limit(run, {**AES_CBC, "image": "another"}) is None
    assert crypto_limit(run, {**AES_CBC, "image": run.image["name"]}) == crypto_limit(run, AES_CBC)


def image(name: str, digest: str) -> Image:
    return Image(name, Path("/"), digest, {"openvpn": digest})


def test_a_folder_keeps_to_its_gateway_images(tmp_path: Path) -> None:
    asked = request("reference", vpns="openvpn", profile="smallest")
    store = Store(tmp_path)
    run = describe(asked, store, {}, image("trixie", "a"), {"bookworm": image("bookworm", "b")}, measured_vpns(store))
    assert run.image["gateways"] == {"bookworm": "b"}
    store.save_run(run)
    again = describe(asked, store, {}, image("trixie", "a"), {"host": image("host", "c")}, measured_vpns(store))
    assert again.image["gateways"] == {"bookworm": "b", "host": "c"}
    with pytest.raises(UsageError, match="measured with gateway image bookworm 'b', not 'd'"):
        describe(asked, store, {}, image("trixie", "a"), {"bookworm": image("bookworm", "d")}, measured_vpns(store))


def test_every_package_of_every_image_is_kept_beside_the_run(tmp_path: Path) -> None:
    save_packages(Store(tmp_path), [image("trixie", "a")])
    save_packages(Store(tmp_path), [image("trixie", "a"), image("bookworm", "b")])
    kept = json.loads((tmp_path / "packages.json").read_text())
    assert kept["bookworm"] == {"digest": "b", "packages": {"openvpn": "b"}}
    assert set(kept) == {"trixie", "bookworm"}
