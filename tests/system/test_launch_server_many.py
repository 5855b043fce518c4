"""Launches in turn and at once on one server: descriptors and memory are flat, and all end well."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import uncollected_server
from tests.support.own_server import NEVER_COLD, OwnServer, own_server
from tests.support.partition import BIN, ROOT, finish
from tests.support.place import Place
from tests.support.wait import LIMIT_S, wait_until

__all__ = ["own_server"]

GROWTH_KIB = 2048  # of the allocator's


def resident_kib(server: OwnServer) -> int:
    text = Path(f"/proc/{server.unix_pid}/status").read_text()
    return next(int(line.split()[1]) for line in text.splitlines() if "VmRSS:" in line)


def in_turn(server: OwnServer, count: int) -> None:
    """A shell's loop; what it runs it says nothing of."""
    loop = f'i=0; while [ $i -lt {count} ]; do "$@" || exit 1; i=$((i+1)); done'
    command = ["sh", "-c", loop, "sh", BIN / "yod", "--mpi=none", "true"]
    done = finish(server.start_command(*command, env=NEVER_COLD), timeout=60 + count)
    assert (done.status, done.out, done.err) == (0, "", "")


@pytest.mark.parametrize(
    "count",
    [300, pytest.param(10_000, marks=[pytest.mark.long, pytest.mark.timeout(3600)])],
)
def test_in_turn(own_server: OwnServer, count: int):
    in_turn(own_server, count // 3)
    own_server.wait_idle()
    descriptors, kib = own_server.descriptors(), resident_kib(own_server)
    in_turn(own_server, count - count // 3)
    own_server.wait_idle()
    assert own_server.descriptors() == descriptors
    assert resident_kib(own_server) <= kib + GROWTH_KIB


def test_what_a_launch_was_made_of_does_not_wait_for_the_garbage_collector(place: Place):
    command = [sys.executable, "-m", uncollected_server.__name__]
    with OwnServer(place, {"PYTHONPATH": str(ROOT)}, command) as server:
        for program in ("true", "echo out; exit 3", "kill -9 $$", "seq 300000"):
            server.yod("-sz", "3", "sh", "-c", program, env=NEVER_COLD)
        server.yod("-sz", "2", "/no/such/program", env=NEVER_COLD)
        server.wait_idle()
        server.daemon.stop()
        assert server.daemon.text().splitlines()[-1] == uncollected_server.SAID


KINDS = {
    "true": (0, ""),
    "echo out": (0, "out\n"),
    "exit 3": (3, ""),
    "kill -9 $$": (137, None),
    "seq 2000": (0, "".join(f"{number}\n" for number in range(1, 2001))),
}


@pytest.mark.parametrize(
    ("seed", "rounds"),
    [
        (0, 2),
        *(pytest.param(seed, 25, marks=pytest.mark.long) for seed in range(1, 3)),
    ],
)
def test_at_once_with_clients_that_die_stop_and_signal(own_server: OwnServer, seed, rounds):
    """Twenty at a time; those that nobody has disturbed must end well."""
    rng = random.Random(seed)
    own_server.works()
    own_server.wait_idle()
    descriptors = own_server.descriptors()
    for _ in range(rounds):
        yods: list[tuple[str, subprocess.Popen[bytes], bool]] = []
        for _ in range(20):
            shell = rng.choice([*KINDS])
            size = str(rng.choice((1, 1, 2)))
            yod = own_server.start_yod("--mpi=none", "-q", "-sz", size, "sh", "-c", shell)
            yods.append((shell, yod, size != "1"))
            if rng.random() < 0.3:
                _, victim, _ = rng.choice(yods)
                number = rng.choice((signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP))
                victim.send_signal(number)
                victim.disturbed = True  # type: ignore[attr-defined]
        for _, yod, _ in yods:
            yod.send_signal(signal.SIGCONT)
        for shell, yod, is_many in yods:
            out, err = yod.communicate(timeout=LIMIT_S)
            assert b"internal error" not in err and b"Traceback" not in err, (shell, err)
            if not hasattr(yod, "disturbed"):
                status, said = KINDS[shell]
                assert yod.returncode == status, (shell, yod.returncode, err)
                if said is not None and not is_many:
                    assert out.decode() == said
    own_server.wait_idle()
    wait_until(lambda: own_server.descriptors() <= descriptors, what="as few descriptors as before")
    own_server.works()
