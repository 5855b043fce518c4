"""Checkpoints that nodes keep first: ranks go on while they are copied to the shared directory."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.criu import needs_criu
from tests.support.partition import Partition, finish
from tests.support.processes import command_line, descendants, stopped
from tests.support.wait import read_until, wait_for_exit, wait_until
from tests.system.test_checkpoint import PROGRAM, Study
from tests.system.test_checkpoint_elsewhere import COUNTS

LARGE = PROGRAM.replace("* 1000", "* (24 << 20)")
DRAINS = "saver drain"


class Kept(Study):
    """A job whose nodes keep its checkpoints first."""

    def __init__(self, partition: Partition, place: Path) -> None:
        super().__init__(partition, place)
        self.local = place / "local"
        self.local.mkdir(mode=0o777)
        self.local.chmod(0o777)

    @contextmanager
    def begun(
        self, *options: str, env: Mapping[str, str] | None = None
    ) -> Iterator[subprocess.Popen[bytes]]:
        """A job that has counted to two; it is killed behind the block if it runs then."""
        words = ("--checkpoint-dir", str(self.kept), "--checkpoint-local", str(self.local))
        job = (*words, *options, "-sz", "2", *self.words(4))
        yod = self.partition.start_yod(*job, env=dict(env or {}))
        try:
            yield self.seen(yod, b" at 2\n", 2)
        finally:
            if yod.poll() is None:
                yod.kill()
                finish(yod)

    def left(self) -> list[str]:
        """What nodes keep."""
        return [path.name for path in self.local.glob("yod-checkpoints-*/*")]

    def collecting(self) -> Path:
        """Where the nodes of the job that runs will copy to."""
        text = self.ask_environment()
        return self.kept / re.search(r"/(\.collecting-[0-9a-f]+)\.\d+/rank", text)[1]

    def ask_environment(self) -> str:
        for pid in descendants(os.getpid()):
            if str(self.program) in command_line(pid):
                text = Path(f"/proc/{pid}/environ").read_text()
                if f"{self.local}/yod-checkpoints-" in text:
                    return text
        raise AssertionError("no rank has such a directory")


@pytest.fixture
def study(anywhere: Partition, tmp_path: Path) -> Kept:
    tmp_path.chmod(0o755)
    return Kept(anywhere, tmp_path)


@pytest.fixture
def alone(embedded: Partition, tmp_path: Path) -> Kept:
    tmp_path.chmod(0o755)
    return Kept(embedded, tmp_path)


@pytest.mark.warm
def test_a_job_is_kept_on_its_nodes_then_copied_and_a_later_one_goes_on_from_it(study):
    with study.begun() as yod:
        done = study.ask()
        assert (done.status, done.err) == (0, "")
        assert done.out.endswith(f": {study.kept}/checkpoint.1\n")
        assert study.left() == []
        study.let(9)
        done = finish(yod)
    assert done.status == 0
    assert re.search(
        rf"yod: checkpoint on the nodes \(2 ranks, 0\.0 MB, [\d.]+ s\), copied to {study.kept}"
        rf" meanwhile\nyod: checkpoint {study.kept}/checkpoint\.1 \(2 ranks",
        done.err,
    ), done.err
    again = study.partition.yod("--restart", str(study.kept))
    assert again.status == 0
    assert again.out.count(" begins at 2\n") == 2


def copying(study: Kept) -> list[int]:
    """The processes that copy, when they have begun to."""
    wait_until(lambda: list(study.kept.glob(".collecting-*/rank.*/*")), what="a copy")
    return [each for each in descendants(os.getpid()) if DRAINS in command_line(each)]


def test_ranks_go_on_while_their_node_copies_and_a_copy_that_is_killed_is_no_checkpoint(alone):
    alone.program.write_text(LARGE)
    with alone.begun() as yod:
        assert alone.ask().status == 0
        asked = alone.command("checkpoint", alone.job_id)
        savers = copying(alone)
        with stopped(*savers):
            alone.let(3)
            read_until(yod.stdout.fileno(), b" at 3\n", times=2)
            again = alone.ask()
            shown = finish(alone.command("checkpoints", alone.kept)).out
            for saver in savers:
                os.kill(saver, signal.SIGKILL)
        done = finish(asked)
        assert (again.status, again.out) == (1, "")
        assert "a checkpoint is being made already" in again.err
        assert re.match(r"\.collecting-\S+  being made, or left behind: 0 nodes have ", shown)
        assert (done.status, done.out) == (1, "")
        assert "no checkpoint: its saver " in done.err
        assert alone.names() == ["checkpoint.1"]
        assert alone.ask("--kill").status == 0  # a copy that comes behind that is whole
        assert "; the job goes on\n" in finish(yod).err
    assert alone.names() == ["checkpoint.1", "checkpoint.2"]
    assert alone.left() == []


def test_yod_that_dies_while_nodes_copy_leaves_the_checkpoint_before(start_local, tmp_path):
    study = Kept(start_local(2), tmp_path)
    study.program.write_text(LARGE)
    with study.begun("-N", "2") as yod:
        assert study.ask().status == 0
        asked = study.command("checkpoint", study.job_id)
        savers = copying(study)
        with stopped(*savers):
            yod.kill()
            finish(yod)
            assert finish(asked).status == 1
        for saver in savers:
            wait_for_exit(saver)
    assert study.names() == ["checkpoint.1"]
    wait_until(lambda: study.left() == [], what="nothing that nodes keep")


def test_a_job_that_fails_while_its_node_copies_ends_behind_its_checkpoint(alone):
    alone.program.write_text(LARGE)
    with alone.begun() as yod:
        asked = alone.command("checkpoint", alone.job_id)
        with stopped(*copying(alone)):
            ranks = [each for each in descendants(yod.pid) if str(alone.program) in words_of(each)]
            os.kill(ranks[-1], signal.SIGKILL)
            read_until(yod.stderr.fileno(), b"its nodes copy the last checkpoint to ")
        assert finish(asked).out.endswith(f": {alone.kept}/checkpoint.1\n")
        done = finish(yod)
    assert done.status == 128 + signal.SIGKILL
    assert f"yod: checkpoint {alone.kept}/checkpoint.1; yod --restart goes on from it" in done.err
    again = alone.partition.yod("--restart", str(alone.kept), "-sz", "2", *alone.words(1))
    assert again.out.count(" begins at 2\n") == 2


def words_of(unix_pid: int) -> str:
    """How a process that is no yod was started."""
    words = command_line(unix_pid)
    return "" if "checkpoint-dir" in words else words


def test_a_directory_that_cannot_be_copied_to_is_named_and_the_job_goes_on(alone):
    with alone.begun() as yod:
        collecting = alone.collecting()
        collecting.write_text("in the way")
        done = alone.ask()
        assert (done.status, done.out) == (1, "")
        assert f"{collecting}: " in done.err
        assert alone.names() == []
        collecting.unlink()
        assert alone.ask("--kill").status == 0
        done = finish(yod)
    assert f"no checkpoint: {collecting}: " in done.err
    assert "; the job goes on\n" in done.err


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        ({"YOD_CHECKPOINT_LOCAL_BYTES": "900"}, "at most 0.0 MB are (YOD_CHECKPOINT_LOCAL_BYTES"),
        ({"YOD_CHECKPOINT_DRAIN_S": "0.001"}, "/kept within 0.001 s"),
    ],
)
def test_a_limit_that_is_exceeded_is_named_and_the_job_goes_on(alone, limits, text):
    with alone.begun(env=limits) as yod:
        done = alone.ask()
        assert (done.status, done.out) == (1, "")
        assert text in done.err
        assert alone.names() == []
        alone.let(9)
        assert finish(yod).status == 0


def test_another_users_directory_is_not_written_to(alone):
    theirs = alone.local / f"yod-checkpoints-{os.geteuid()}"
    theirs.symlink_to(alone.kept)
    with alone.begun():
        assert f"{theirs}: not a directory of yours" in alone.ask().err


def test_a_path_that_is_not_absolute_is_refused(embedded):
    done = embedded.yod("--checkpoint-dir", "d", "--checkpoint-local", "shm", "true")
    assert (done.status, done.out) == (125, "")
    assert done.err == (
        "yod: --checkpoint-local shm: an absolute path, of a directory of each node's\n"
    )


@pytest.mark.usefixtures("needs_root")
def test_what_criu_has_written_down_is_copied_and_comes_back(embedded, tmp_path):
    (tmp_path / "program.py").write_text(COUNTS)
    (tmp_path / "local").mkdir()
    env = {"YOD_CRIU": needs_criu()}
    words = ("--checkpoint-dir", "kept", "--checkpoint-by", "criu", "--checkpoint-on", "TERM")
    local = ("--checkpoint-local", str(tmp_path / "local"))
    with embedded.start_yod(
        *words, *local, "-sz", "1", "python3", "program.py", cwd=tmp_path, env=env
    ) as yod:
        read_until(yod.stdout.fileno(), b".\n")
        yod.send_signal(signal.SIGTERM)
        assert finish(yod).status == 75
    (tmp_path / "go").touch()
    done = embedded.yod("--restart", "kept", cwd=tmp_path, env=env)
    assert (done.status, done.out) == (0, "came back with 7\n")
    assert list((tmp_path / "local").glob("*/*")) == []
