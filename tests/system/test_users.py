"""A partition that root runs serves all users of its hosts."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from native import auth
from tests.support.hosts import Host, Hosts
from tests.support.nobody import AS_NOBODY, NOBODY
from tests.support.partition import BIN
from tests.support.place import Place
from tests.support.users import add_users, words_as
from tests.support.wait import LIMIT_S, wait_until

pytestmark = pytest.mark.usefixtures("needs_root")


@pytest.fixture
def two(needs_root: None) -> Iterator[Hosts]:
    with Hosts(2) as hosts:
        yield hosts


@pytest.fixture
def homes() -> Iterator[Path]:
    """A directory for users' homes, below none that they cannot search."""
    with tempfile.TemporaryDirectory(prefix="test-of-yod-", dir="/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def shared(two: Hosts, place: Place, homes: Path) -> Iterator[Shared]:
    """A host with a partition of root's, and users."""
    add_users([two[0]], homes)
    found = Shared(two[0], place, homes)
    up = found.root("yodctl", "up", "--local", "2")
    assert (up.returncode, up.stderr) == (0, "")
    yield found
    assert found.root("yodctl", "down", "--force").returncode == 0


def environment(place: Place, home: Path | None = None) -> dict[str, str]:
    """That of a user on a host, who has set nothing."""
    env = place.environment()
    del env["YOD_RUN_DIRECTORY"], env["XDG_RUNTIME_DIR"]
    if home is not None:
        env["HOME"] = str(home)
        del env["XDG_STATE_HOME"]
    return env


class Shared:
    """A host with a partition of root's, which users use who have set nothing."""

    def __init__(self, host: Host, place: Place, homes: Path) -> None:
        self.host = host
        self._place = place
        self.homes = homes

    def root(self, program: str, *words: str) -> subprocess.CompletedProcess[str]:
        return run(self.host, BIN / program, *words, env=environment(self._place))

    def ask(self, user: str, program: str, *words: str) -> tuple[int, str, str]:
        """Run a command of a user's; its status, its output, and what it says of errors."""
        with self.start(user, program, *words) as process:
            out, err = process.communicate("", timeout=LIMIT_S)
        return process.returncode, out, err

    def start(self, user: str, program: str, *words: str) -> subprocess.Popen[str]:
        home = self.homes / user
        pipe = subprocess.PIPE
        return self.host.popen(
            [*words_as(user), BIN / program, *words],
            env=environment(self._place, home),
            cwd=home,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            text=True,
        )


def run(
    host: Host, *words: str | os.PathLike[str], **options: object
) -> subprocess.CompletedProcess[str]:
    return host.run(list(words), **{"cwd": "/", **options})  # type: ignore[arg-type]


def test_another_user_finds_roots_partition_with_nothing_set(two, place, theirs):
    host, root, other = two[0], environment(place), environment(place, theirs)
    up = run(host, BIN / "yodctl", "up", "--local", "2", env=root)
    assert (up.returncode, up.stderr) == (0, "")
    assert "unix:/run/yod/bebopd.sock" in up.stdout
    done = run(host, *AS_NOBODY, BIN / "yod", "-sz", "2", "id", "-u", env=other)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{NOBODY}\n" * 2, "")
    nodes = run(host, *AS_NOBODY, BIN / "pingd", "-parse", env=other).stdout
    assert [line.split(":")[2] for line in nodes.splitlines()[1:]] == ["free", "free"]
    script = theirs / "script"
    script.write_text("#!/bin/sh\nyod -sz 2 id -u\n")
    script.chmod(0o755)
    words = ("submit", "--wait", "-sz", "2", script)
    batch = run(host, *AS_NOBODY, BIN / "yodjob", *words, env=other, cwd=theirs)
    assert (batch.returncode, batch.stderr) == (0, ""), (
        batch.stdout,
        [p.read_text() for p in theirs.glob("*2*")],
    )
    seen = host.path("/run/yod")
    assert seen.stat().st_mode & 0o777 == 0o755
    assert (seen / "bebopd.sock").stat().st_mode & 0o777 == 0o666
    down = run(host, BIN / "yodctl", "down", env=root)
    assert (down.returncode, down.stderr) == (0, "")
    assert not host.path("/run/yod/bebopd.sock").exists()
    alone = run(host, *AS_NOBODY, BIN / "yod", "-sz", "2", "id", "-u", env=other)
    assert (alone.returncode, alone.stdout) == (0, f"{NOBODY}\n" * 2)  # on this host alone


def test_a_user_of_another_host_has_the_key_in_its_default_place(two, place, theirs):
    host, there = two[0], two[1]
    root, other = environment(place), environment(place, theirs)
    key = place.directory / "key"
    bebopd = host.popen(
        [BIN / "bebopd", "--listen", f"{host.address}:7117", "--key-file", key],
        env={**root, "HOME": str(place.directory / "home")},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert bebopd.stderr is not None
    while "partition local at" not in (line := bebopd.stderr.readline()):
        assert line
    config = theirs / ".config/yod"
    config.mkdir(parents=True)
    mine = config / "key"
    mine.write_text(f"user {NOBODY} {auth.derive_user_key(key.read_bytes(), NOBODY).hex()}\n")
    os.chown(mine, NOBODY, NOBODY)
    ask = (*AS_NOBODY, BIN / "pingd", "--partition", f"{host.address}:7117")
    mine.chmod(0o644)
    refused = run(there, *ask, env=other)
    assert refused.returncode != 0
    assert f"key file {mine}: mode 0644 lets others use it: chmod 600 {mine}" in refused.stderr
    mine.chmod(0o600)
    done = run(there, *ask, env=other)
    assert (done.returncode, done.stderr) == (0, "")
    mine.unlink()
    without = run(there, *ask, env=other)
    assert f"a key is needed for host:port; have one in {mine}" in without.stderr
    # bebopd itself has made its socket where users of its host look.
    assert run(host, *AS_NOBODY, BIN / "pingd", env=other).returncode == 0
    bebopd.terminate()
    assert bebopd.wait(timeout=LIMIT_S) == 0
    bebopd.stderr.close()


def test_each_sees_all_nodes_operators_operate_and_others_touch_only_what_is_theirs(shared):
    (shared.homes / "alice/script").write_text("#!/bin/sh\nexec sleep 600\n")
    status, out, err = shared.ask("alice", "yodjob", "submit", "-sz", "2", "script")
    assert (status, err) == (0, "")
    job_id = out.split()[1]
    wait_until(lambda: shared.ask("bob", "pingd", "-parse")[1].count(":alice:") == 2)
    refused = (1, "", f"yodjob: {job_id}: job {job_id} belongs to alice\n")
    for command in (("cancel",), ("signal", "TERM"), ("update", "-time", "1:00:00")):
        assert shared.ask("bob", "yodjob", *command, job_id) == refused
    may = "root and group bebop may"
    for command in (("drain", "-reason", "mine", "0"), ("restart", "--force", "0")):
        text = f"yodctl: bob may not change nodes of partition `local`: {may}\n"
        assert shared.ask("bob", "yodctl", *command) == (1, "", text)
    assert shared.ask("olive", "yodctl", "drain", "-reason", "fan", "1")[::2] == (0, "")
    assert "drained by olive" in shared.ask("bob", "pingd")[1]
    assert shared.ask("olive", "yodctl", "resume", "1")[::2] == (0, "")
    assert shared.ask("olive", "yodjob", "cancel", job_id)[::2] == (0, "")
    status, out, _ = shared.ask("alice", "yodjob", "wait", job_id)
    assert status != 0
    _, out, _ = shared.ask("alice", "yodjob", "history", job_id)
    assert "olive" in out
    assert shared.ask("bob", "yodjob", "history", job_id)[1].count(job_id) == 0


def test_root_and_operators_end_all_jobs_by_pingd_and_others_only_theirs(shared: Shared) -> None:
    def start() -> subprocess.Popen[str]:
        yod = shared.start("alice", "yod", "sh", "-c", "echo up; exec sleep 600")
        assert yod.stdout is not None and yod.stdout.readline() == "up\n"
        return yod

    for number, by in enumerate(("root", "olive", "alice"), start=1):
        with start() as yod:
            refused = (1, "", f"pingd: job {number} belongs to alice\n")
            for request in ("-interrupt", "-nicekill", "-reset"):
                assert shared.ask("bob", "pingd", request, "-job", str(number)) == refused
                nothing = "pingd: no job there that you may end; 1 job is another user's\n"
                assert shared.ask("bob", "pingd", request, "-all") == (1, "", nothing)
            status, _, err = shared.ask("bob", "pingd", "-kill", "-all")
            assert (status, err.startswith("pingd: bob may not change nodes")) == (1, True)
            if by == "root":
                assert shared.root("pingd", "-interrupt", "-all").returncode == 0
            else:
                assert shared.ask(by, "pingd", "-reset", "-job", str(number))[::2] == (0, "")
            yod.communicate(timeout=LIMIT_S)
            assert yod.returncode == 128 + (15 if by == "root" else 9)
