"""A process of root's opens what users name with their rights."""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

import pytest

from native.host.files import Owner, exists, open_plain
from tests.support.files import fault

NOBODY = Owner(65534, 65534)
WITH_GROUP = Owner(65534, 65534, (4711,))

pytestmark = pytest.mark.usefixtures("needs_root")


def open_and_close(path: Path, owner: Owner) -> None:
    os.close(open_plain(os.fsencode(path), owner))


def own_rights() -> tuple[object, ...]:
    """What a process has that decides what it may do."""
    lines = Path("/proc/thread-self/status").read_text().splitlines()
    kept = [line for line in lines if line.startswith(("Uid", "Gid", "Groups", "Cap"))]
    return *kept, os.stat("/proc/self/status").st_uid


def test_a_user_reads_through_root_what_they_may_and_nothing_else(open_place):
    before = own_rights()
    for name, mode, group in (
        ("theirs", 0o400, None),
        ("roots", 0o600, 0),
        ("groups", 0o640, 4711),
        ("everybodys", 0o644, 0),
    ):
        path = open_place / name
        path.write_bytes(b"x")
        os.chown(path, 65534 if group is None else 0, group or 0)
        path.chmod(mode)
    (open_place / "closed").mkdir(0o700)
    (open_place / "closed/file").write_bytes(b"x")
    outcomes = {
        (name, owner): fault(open_and_close, open_place / name, owner)
        for name in ("theirs", "roots", "groups", "everybodys", "closed/file", "closed/absent")
        for owner in (NOBODY, WITH_GROUP)
    }
    assert own_rights() == before
    refused = {key for key, outcome in outcomes.items() if outcome == errno.EACCES}
    assert refused == {
        ("groups", NOBODY),
        *((name, NOBODY) for name in ("roots", "closed/file", "closed/absent")),
        *((name, WITH_GROUP) for name in ("roots", "closed/file", "closed/absent")),
    }
    assert {outcomes[key] for key in outcomes.keys() - refused} == {None}


def test_a_user_is_not_told_by_root_what_there_is(open_place):
    (open_place / "closed").mkdir(0o700)
    (open_place / "closed/file").write_bytes(b"x")
    for name in ("file", "absent"):
        path = os.fsencode(open_place / "closed" / name)
        assert fault(exists, path, NOBODY) == errno.EACCES
    assert not exists(os.fsencode(open_place / "absent"), NOBODY)
    assert exists(os.fsencode(open_place / "closed"), NOBODY)


def test_a_process_that_acts_for_a_user_is_itself_again_in_every_respect(open_place):
    """The kernel forgets the death signal and forbids traces when ids change."""
    prctl = ctypes.CDLL(None).prctl
    get_dumpable, set_death_signal, get_death_signal = 3, 1, 2
    value = ctypes.c_int()
    child = os.fork()
    if child == 0:
        prctl(set_death_signal, 15)
        before = (prctl(get_dumpable), own_rights())
        fault(open_plain, os.fsencode(open_place), NOBODY)
        prctl(get_death_signal, ctypes.byref(value))
        is_same = (prctl(get_dumpable), own_rights()) == before and value.value == 15
        os._exit(0 if is_same else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_who_may_not_act_for_a_user_opens_nothing(open_place):
    path = open_place / "file"
    path.write_bytes(b"x")
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)
        os._exit(fault(open_plain, os.fsencode(path), Owner(65533, 65533)) or 0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == errno.EPERM
