"""Addresses on the command line."""

import pytest

from native.errors import UsageError
from native.port.address import advertised, facing, numeric


@pytest.mark.parametrize("address", ["127.0.0.1:7000", "unix:/run/yod/socket"])
def test_a_numeric_address_and_a_path_stay_as_they_are(address: str) -> None:
    assert numeric(address) == address


def test_a_name_is_looked_up() -> None:
    assert numeric("localhost:7000") == "127.0.0.1:7000"


@pytest.mark.parametrize("address", ["", "larch", ":7", "larch:", "larch:x", "larch:70000"])
def test_what_is_no_address_is_refused_by_name(address: str) -> None:
    with pytest.raises(UsageError, match=r"^--bebopd .*must be HOST:PORT$"):
        numeric(address, "--bebopd")


def test_an_unknown_name_is_told() -> None:
    with pytest.raises(UsageError, match=r"--listen no\.such\.host\.invalid:1: "):
        numeric("no.such.host.invalid:1", "--listen")


def test_the_name_of_this_host_is_advertised_by_its_number(monkeypatch) -> None:
    names = {"head": "10.77.0.1", "larch": "127.0.1.1"}
    monkeypatch.setattr("socket.gethostbyname", names.__getitem__)
    assert advertised("head") == advertised("10.77.0.1") == "10.77.0.1"
    assert advertised("127.0.0.1") == "127.0.0.1"
    with pytest.raises(
        UsageError, match=r"^--advertise larch: 127\.0\.1\.1 is reached from this host"
    ):
        advertised("larch")


def test_a_peer_on_this_host_sees_the_loopback_address() -> None:
    assert facing("127.0.0.1:7000") == facing("unix:/run/yod/socket") == "127.0.0.1"
