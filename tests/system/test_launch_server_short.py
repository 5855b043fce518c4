"""A launch server that is short of descriptors or memory: one line or none, and others go on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from resource import RLIMIT_AS, RLIMIT_NOFILE, prlimit

import pytest

from native.wire import client as wire
from tests.support.own_server import HasEndedError, OwnServer, Raw, memfd, own_server, request_of
from tests.support.partition import Done, finish
from tests.support.wait import read_until, wait_until

__all__ = ["own_server"]

DESCRIPTORS_MAX = 200
MEMORY_KIB = 192  # more than this is enough
RAN = "ran\nran\n"


def is_whole_or_lost(done: Done, ran: int) -> bool:
    """A launch has run once and well; or it has not ended well, and a line says why.

    A second line may come from the session, where memory was short for that, too.

    Returns:
        Whether it has run well.
    """
    if done.status == 0:
        assert (done.out, done.err, ran) == (RAN, "", 2), (done, ran)
        return True
    assert done.status == 125 and 1 <= done.err.count("\n") <= 2, done
    assert "internal error" not in done.err and ran <= 2, (done, ran)
    return False


def run(server: OwnServer, file: Path, count: int = 1) -> list[bool]:
    """Launches at the same time; whether each has run well."""
    yods = []
    for number in range(count):
        name = f"{file}.{number}"
        yods.append(server.start_yod("-sz", "2", "sh", "-c", f"echo r >> {name}; echo ran"))
    dones = [finish(yod) for yod in yods]
    well = []
    for number, done in enumerate(dones):
        name = Path(f"{file}.{number}")
        well.append(is_whole_or_lost(done, name.read_text().count("r") if name.exists() else 0))
        name.unlink(missing_ok=True)
    return well


@pytest.fixture
def limit(own_server: OwnServer) -> Iterator[Callable[[int, int], None]]:
    """Gives the server another limit of a resource; the first ones are restored."""
    before: dict[int, tuple[int, int]] = {}

    def set_soft(resource: int, soft: int) -> None:
        before.setdefault(resource, prlimit(own_server.unix_pid, resource))
        prlimit(own_server.unix_pid, resource, (soft, before[resource][1]))

    def restore() -> None:
        for each in before:
            if own_server.daemon.is_alive:
                prlimit(own_server.unix_pid, each, before[each])
        before.clear()

    yield set_soft, restore
    restore()


@pytest.mark.parametrize("step", [pytest.param(1, marks=pytest.mark.long), 3])
def test_with_any_number_of_descriptors_it_runs_a_launch_or_says_why_not(
    own_server: OwnServer, limit, tmp_path: Path, step: int
):
    set_soft, restore = limit
    own_server.works()
    own_server.wait_idle()
    idle = own_server.descriptors()
    for count in range(idle, DESCRIPTORS_MAX, step):
        set_soft(RLIMIT_NOFILE, count)
        (is_well,) = run(own_server, tmp_path / "ran")
        restore()
        wait_until(lambda: own_server.descriptors() == idle, what="as many descriptors as before")
        if is_well and count > idle + 2:  # else it was cold
            return
    raise AssertionError(f"{DESCRIPTORS_MAX} descriptors are too few")


def test_a_launch_goes_on_while_no_descriptor_is_left_and_others_run_cold_or_say_why(
    own_server: OwnServer, limit, tmp_path: Path
):
    server = own_server
    most = server.descriptors() + 32
    limit[0](RLIMIT_NOFILE, most)
    held: list[Raw] = []
    try:
        yod = server.start_warm("-sz", "1", "sh", "-c", "echo up; read line; echo ran")
        assert yod.stdout is not None
        read_until(yod.stdout.fileno(), b"up\n")  # it asks for no more descriptors
        run(server, tmp_path / "ran", count=8)
        wait_until(lambda: server.states() == ["running"], what="the end of the others")
        while server.descriptors() < most - 1:
            held.append(server.connect())
            held[-1].expect(wire.Hello)
        assert run(server, tmp_path / "ran", count=2) == [True, True]
        done = finish(yod, b"go\n")
        assert (done.status, done.out, done.err) == (0, "ran\n", "")
    finally:
        for each in held:
            each.close()


def test_a_client_that_leaves_it_no_descriptor_for_the_request_goes_cold(
    own_server: OwnServer, limit
):
    server = own_server
    most = server.descriptors() + 8
    limit[0](RLIMIT_NOFILE, most)
    held: list[Raw] = []
    try:
        while server.descriptors() < most - 1:
            held.append(server.connect())
            held[-1].expect(wire.Hello)
        with server.connect() as last:
            last.expect(wire.Hello)
            request, strings = request_of("-sz", "1", "true")
            here = os.open("/", os.O_PATH)
            with memfd(strings) as fd:
                last.send(request, fd, here)
            os.close(here)
            assert last.expect(wire.Cold).reason == "Too many open files"
        for each in held:
            each.close()
        held.clear()
        server.wait_idle()
    finally:
        for each in held:
            each.close()


@pytest.mark.parametrize("step", [pytest.param(4, marks=pytest.mark.long), 48])
def test_with_any_amount_of_memory_it_runs_launches_or_says_why_not(
    own_server: OwnServer, limit, tmp_path: Path, step: int
):
    set_soft, restore = limit
    own_server.works()
    for more_kib in range(0, MEMORY_KIB, step):
        text = Path(f"/proc/{own_server.unix_pid}/status").read_text()
        (size_kib,) = (int(line.split()[1]) for line in text.splitlines() if "VmSize:" in line)
        set_soft(RLIMIT_AS, (size_kib + more_kib) * 1024)
        run(own_server, tmp_path / "ran", count=3)
        restore()
        if not own_server.daemon.is_alive:
            own_server.start()
        try:
            own_server.wait_idle()
        except HasEndedError:  # for want of memory; it was on its way out when it was looked at
            own_server.start()
            own_server.wait_idle()
    own_server.works()
