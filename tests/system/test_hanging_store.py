"""A node whose disk hangs is lost to its jobs, with that reason, and comes back with the disk."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.partition import BIN, finish
from tests.support.wait import LIMIT_S, read_until, wait_until

pytestmark = pytest.mark.usefixtures("needs_root")

ANSWER_S = "2"  # a disk that does not hang answers within
HANGS = f"hangs: a write to {{}} has not ended in {ANSWER_S} s (YOD_STORE_ANSWER_S)"


class Disk:
    """A file system of its own, which the kernel can freeze: who writes to it waits."""

    def __init__(self, directory: Path) -> None:
        image = directory / "image"
        with image.open("wb") as file:
            file.truncate(32 << 20)
        subprocess.run(["mkfs.ext4", "-q", image], check=True)
        self.path = directory / "disk"
        self.path.mkdir()
        subprocess.run(["mount", "-o", "loop", image, self.path], check=True)
        self.path.chmod(0o755)
        self._is_frozen = False

    def freeze(self) -> None:
        subprocess.run(["fsfreeze", "--freeze", self.path], check=True)
        self._is_frozen = True

    def thaw(self) -> None:
        if self._is_frozen:
            subprocess.run(["fsfreeze", "--unfreeze", self.path], check=True)
        self._is_frozen = False

    def close(self) -> None:
        self.thaw()
        subprocess.run(["umount", "--lazy", self.path], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    found = Disk(tmp_path)
    yield found
    found.close()


def node(partition, number: int) -> dict[str, object]:
    done = finish(partition.start_command(BIN / "pingd", "--json"))
    found: dict[str, object] = json.loads(done.out)["nodes"][number]
    return found


def test_a_disk_that_hangs_ends_the_jobs_of_its_node_and_pingd_says_so(start_local, disk, tmp_path):
    program = tmp_path / "program"  # which has to be brought to the nodes
    program.write_text("#!/bin/sh\necho up; exec sleep 1000\n")
    program.chmod(0o755)
    store, why = str(disk.path), HANGS.format(disk.path)
    local = start_local(
        1, slots=2, pct_options=("--store", store), env={"YOD_STORE_ANSWER_S": ANSWER_S}
    )
    with local.start_yod("-sz", "1", program, env={"YOD_END_S": "1"}) as yod:
        read_until(yod.stdout.fileno(), b"up\n")
        disk.freeze()
        # At once; it ends later, since what waits for the disk cannot be killed.
        line = read_until(yod.stderr.fileno(), b"\n").decode()
        assert line == f"yod: node 0 (node0) was lost (running): it {why}\n"
        yod.communicate(timeout=LIMIT_S)
        assert yod.returncode == 125
    found = wait_until(lambda: (n := node(local, 0))["state"] == "trouble" and n)
    assert found["why"] == f"in trouble: {why}; busy with job 1 of root, 1 of 2 slots free"
    refused = local.yod("-sz", "1", "true")
    assert refused.status == 125 and "node0" in refused.err
    # The pct lives: it answers bebopd, and takes the node back when the disk does.
    disk.thaw()
    wait_until(lambda: node(local, 0)["state"] == "free")
    assert local.yod("-sz", "1", "true") == (0, "", "")
