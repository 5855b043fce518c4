"""Users of other hosts are proven by a real MUNGE."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from native.identity import munge
from native.identity.munge import Fault, MungeError
from tests.support.hosts import Host, Hosts
from tests.support.partition import BIN
from tests.support.place import Place
from tests.support.users import UIDS, add_users, words_as
from tests.support.wait import LIMIT_S, wait_until

pytestmark = pytest.mark.usefixtures("needs_root")


class Munged:
    """The daemon of a host, at the place where everybody looks for it."""

    def __init__(self, host: Host, key: Path) -> None:
        host.run(["mkdir", "/run/munge"], check=True)
        files = ("pid", "seed", "log")
        self.socket = host.path(munge.SOCKET)
        self._process = host.popen(
            [
                *("munged", "--foreground", "--force", f"--key-file={key}"),
                *(f"--{name}-file=/run/munge/{name}" for name in files),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_until(self._listens, what="munged")

    def _listens(self) -> bool:
        with socket.socket(socket.AF_UNIX) as client:
            return client.connect_ex(str(self.socket)) == 0

    def kill(self) -> None:
        """End it; its socket stays."""
        self._process.kill()
        self._process.wait(timeout=LIMIT_S)


class Site:
    """A partition of root's on one host, a user on another, and MUNGE on both."""

    def __init__(self, hosts: Hosts, place: Place, homes: Path) -> None:
        self.hosts = hosts
        self._homes = homes
        self._env = {**place.environment(), "YOD_RUN_DIRECTORY": "none"}
        key = place.directory / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        self.munged = [Munged(host, key) for host in hosts]
        self.address = f"{hosts[0].address}:7117"
        self.log = place.directory / "bebopd.log"
        partition_key = place.directory / "key"
        state = place.directory / "records"
        words = (BIN / "bebopd", "--listen", self.address, "--key-file", partition_key)
        self.daemons = [hosts[0].popen([*words, "--state-dir", state, "--log", self.log])]
        wait_until(lambda: self.log.exists() and "partition local at" in self.log.read_text())
        words = (BIN / "pct", "--bebopd", self.address, "--key-file", partition_key, "--slots", "2")
        self.daemons += [
            hosts[0].popen([*words, "--store", "/dev/shm", "--log", place.directory / "pct.log"])
        ]
        wait_until(lambda: "node 0" in self.log.read_text())

    def ask(self, user: str, program: str, *words: str) -> tuple[int, str, str]:
        env = {**self._env, "HOME": str(self._homes / user), "YOD_PARTITION": self.address}
        done = self.hosts[1].run(
            [*words_as(user), BIN / program, *words], env=env, cwd=self._homes / user
        )
        return done.returncode, done.stdout, done.stderr

    def close(self) -> None:
        for daemon in reversed(self.daemons):
            daemon.terminate()
            assert daemon.wait(timeout=LIMIT_S) == 0


@pytest.fixture
def site(place: Place) -> Iterator[Site]:
    if shutil.which("munged") is None:
        pytest.skip("needs munged")
    with Hosts(2) as hosts, tempfile.TemporaryDirectory(prefix="test-of-yod-", dir="/tmp") as name:
        Path(name).chmod(0o755)
        add_users(hosts, Path(name))
        found = Site(hosts, place, Path(name))
        yield found
        found.close()


def test_a_user_of_another_host_needs_no_key_where_munge_is(site: Site) -> None:
    alice = str(UIDS["alice"])
    assert site.ask("alice", "yod", "-sz", "2", "id", "-u") == (0, f"{alice}\n" * 2, "")
    assert site.ask("bob", "yodctl", "drain", "-reason", "x", "0")[0] == 1
    assert site.ask("olive", "yodctl", "drain", "-reason", "fan", "0")[::2] == (0, "")
    # What one has proven is nobody else's: a credential is opened once, by whom it is for.
    socket = str(site.munged[1].socket)
    for_root = munge.encode(b"x", 0, socket)
    assert munge.decode(for_root, str(site.munged[0].socket)) == (0, b"x")
    for made, fault in (
        (for_root, Fault.USED),
        (munge.encode(b"x", UIDS["alice"], socket), Fault.INVALID),
        (b"MUNGE:AwQF:", Fault.INVALID),
    ):
        with pytest.raises(MungeError) as caught:
            munge.decode(made, str(site.munged[0].socket))
        assert caught.value.fault is fault
    # bebopd's munged is gone: its host is named, and everything else goes on.
    site.munged[0].kill()
    status, _, err = site.ask("alice", "yod", "true")
    assert (status, err.count("\n")) == (125, 1), err
    assert "does not take the credential of MUNGE: no munged answers on its host" in err
    wait_until(lambda: "munged does not answer" in site.log.read_text())
    # The user's own is.
    site.munged[1].kill()
    status, _, err = site.ask("alice", "yod", "true")
    assert (status, err.count("\n")) == (125, 1), err
    assert "MUNGE does not prove who you are" in err and "is munged up?" in err
