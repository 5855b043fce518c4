"""Users of the partition's hosts, as bebopd finds them."""

import grp
import os
import pwd

from allocator.host import owners
from allocator.host.owners import Owners


def test_the_user_that_bebopd_runs_as_is_known():
    owner = Owners().find(os.geteuid())
    assert owner is not None
    assert (owner.uid, owner.name) == (os.geteuid(), pwd.getpwuid(os.geteuid()).pw_name)


def test_a_user_comes_with_all_groups():
    entry = next(entry for entry in pwd.getpwall() if entry.pw_uid != os.geteuid())
    owner = Owners().find(entry.pw_uid)
    member_of = {group.gr_gid for group in grp.getgrall() if entry.pw_name in group.gr_mem}
    assert owner is not None
    assert owner.gid == pwd.getpwuid(entry.pw_uid).pw_gid
    assert member_of <= set(owner.groups)


def test_a_group_has_whom_the_system_says_and_one_that_is_not_there_has_nobody():
    entry = next(entry for entry in pwd.getpwall() if entry.pw_uid != os.geteuid())
    name = grp.getgrgid(entry.pw_gid).gr_name
    found = Owners()
    assert found.is_in(entry.pw_uid, name)
    assert not found.is_in(entry.pw_uid, "no-such-group-of-tests")
    assert not found.is_in(1 << 30, name)


def test_nobody_is_nobody():
    known = {entry.pw_uid for entry in pwd.getpwall()}
    stranger = next(uid for uid in range(60000, 1 << 20) if uid not in known)
    assert Owners().find(stranger) is None


def test_a_lookup_is_remembered_for_a_while(monkeypatch):
    now = 0.0
    asked = []
    monkeypatch.setattr(owners, "_look_up", lambda uid: asked.append(uid))
    found = Owners(lambda: now)
    found.find(7)
    found.find(7)
    assert asked == [7]
    now = owners.REMEMBERED_S
    found.find(7)
    assert asked == [7, 7]
