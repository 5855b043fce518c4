"""A connection from another host: who has the key is let in, and nobody else."""

from __future__ import annotations

import os
import socket
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from native.errors import YodError
from yod.pilot.client.loop import Loop
from yod.pilot.link import greeting
from yod.pilot.link.link import Listener, connect

LIMIT_S = 20.0


class Host:
    """A listener that is reached by TCP alone, as one on another host is."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "a.sock"
        self.come: list[socket.socket] = []
        self.came = threading.Event()
        self.loop = Loop("host")
        self.listener = self.loop.call(self._listen)
        self.path.unlink()

    def _listen(self) -> Listener:
        listener = Listener(str(self.path), self.loop.reactor, self._let_in)
        listener.reach("127.0.0.1")
        listener.reach("127.0.0.1")
        return listener

    def _let_in(self, end: socket.socket) -> None:
        self.come.append(end)
        self.came.set()

    @property
    def file(self) -> Path:
        return Path(f"{self.path}{greeting.SUFFIX}")

    @property
    def address(self) -> tuple[str, int]:
        host, port, _ = self.file.read_text().split()
        return host, int(port)

    def close(self) -> None:
        self.loop.call(self.listener.close)
        self.loop.close()
        for end in self.come:
            end.close()


@pytest.fixture
def host(tmp_path):
    host = Host(tmp_path)
    yield host
    host.close()
    assert list(tmp_path.iterdir()) == []


def test_who_has_read_the_key_is_let_in(host):
    assert os.stat(host.file).st_mode & 0o777 == 0o600
    end = connect(str(host.path))
    try:
        assert host.came.wait(LIMIT_S)
        end.sendall(b"hello")
        host.come[0].settimeout(LIMIT_S)
        assert host.come[0].recv(5) == b"hello"
    finally:
        end.close()


def test_who_has_another_key_is_not_and_finds_out(host):
    whole = host.file.read_text()
    name, port, key = whole.split()
    host.file.write_text(f"{name} {port} {key[::-1]}\n")
    with pytest.raises(YodError, match=r"does not have the key in .*a\.sock\.tcp"):
        connect(str(host.path))
    host.file.write_text(whole)
    connect(str(host.path)).close()
    assert host.came.wait(LIMIT_S)
    assert len(host.come) == 1


@pytest.mark.parametrize("said", [b"", b"x", b"x" * 31, b"x" * 64, b"x" * 4096])
def test_a_stranger_is_not_let_in_whatever_it_says(host, said):
    with socket.create_connection(host.address, timeout=LIMIT_S) as end:
        with suppress(OSError):  # it may have hung up meanwhile
            end.sendall(said)
            end.shutdown(socket.SHUT_WR)
        answer = b""
        try:
            while data := end.recv(4096):
                answer += data
        except ConnectionError:
            pass
    assert len(answer) <= 64
    connect(str(host.path)).close()
    assert host.came.wait(LIMIT_S)
    assert len(host.come) == 1


def test_strangers_that_say_nothing_keep_nobody_out(host, monkeypatch):
    monkeypatch.setattr(greeting, "STRANGERS_MAX", 2)
    monkeypatch.setattr(greeting, "_PATIENCE_S", LIMIT_S)
    silent = [socket.create_connection(host.address, timeout=LIMIT_S) for _ in range(3)]
    assert silent[0].recv(1) == b""
    connect(str(host.path)).close()
    assert host.came.wait(LIMIT_S)
    assert silent[1].recv(1) == b""
    for each in silent:
        each.close()


def test_a_proof_is_not_valid_a_second_time(host):
    key = bytes.fromhex(host.file.read_text().split()[2])

    def say(own, proof):
        with socket.create_connection(host.address, timeout=LIMIT_S) as end:
            end.sendall(own)
            answer = end.recv(64, socket.MSG_WAITALL)
            found = proof or greeting._proof(key, b"caller", own + answer[:32])
            end.sendall(found)
            if not proof:
                assert host.came.wait(LIMIT_S)
            else:
                assert end.recv(1) == b""
        return found

    own = b"n" * 32
    say(own, say(own, b""))
    assert len(host.come) == 1


def test_a_file_that_says_nothing_is_an_error(host):
    whole = host.file.read_text()
    host.file.write_text("nonsense")
    with pytest.raises(YodError, match="it has no address and key"):
        connect(str(host.path))
    host.file.write_text(f"127.0.0.1 1 {'00' * 32}\n")
    with pytest.raises(YodError, match=r"127\.0\.0\.1:1: Connection refused"):
        connect(str(host.path))
    host.file.write_text(whole)


def test_an_address_of_this_host_is_found():
    socket.inet_aton(greeting.own_address())


def test_who_comes_again_has_the_address_and_key_of_the_one_before(tmp_path):
    first = Host(tmp_path)
    before = first.file.read_text()
    first.loop.call(lambda: first.listener.close(comes_again=True))
    first.loop.close()
    second = Host(tmp_path)
    assert second.file.read_text() == before
    greeting.call_at(greeting.read(str(second.file)), "").close()
    assert second.came.wait(LIMIT_S)
    second.close()
    with pytest.raises(greeting.Nobody, match="Connection refused"):
        greeting.call_at(greeting.Address("127.0.0.1", int(before.split()[1]), b"k" * 32), "")
    assert list(tmp_path.iterdir()) == []


def test_a_port_that_somebody_has_now_is_not_taken_from_them(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        (tmp_path / "a.sock.tcp").write_text(f"127.0.0.1 {port} {'ab' * 32}\n")
        host = Host(tmp_path)
        assert host.address[1] != port
        assert host.file.read_text().split()[2] == "ab" * 32
        host.close()


def test_what_is_sealed_is_read_by_who_has_the_key_and_each_time_other_bytes():
    key, data = b"k" * 32, bytes(range(32))
    first, second = (greeting.sealed(key, salt, data) for salt in (b"1" * 32, b"2" * 32))
    assert len({data, first, second}) == 3
    assert greeting.sealed(key, b"1" * 32, first) == data
    assert greeting.sealed(b"o" * 32, b"1" * 32, first) != data
