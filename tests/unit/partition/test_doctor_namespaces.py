"""Which namespaces the doctor finds that a host can make."""

import errno
import os

import pytest

from partition.doctor import namespaces
from partition.doctor.finding import Level, ok


def test_a_host_that_makes_all_is_well(monkeypatch):
    for uid in (0, 1000):
        monkeypatch.setattr(os, "geteuid", lambda uid=uid: uid)
        found = [*namespaces.findings(attempt=lambda flags: 0)]
        assert found == [ok("namespaces", "all that jobs may need can be made")]


@pytest.mark.parametrize(
    ("uid", "setting", "value", "remedy"),
    [
        (0, "user/max_mnt_namespaces", "0", "sysctl user.max_mnt_namespaces=15000"),
        (1000, "user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=15000"),
        (
            1000,
            "kernel/unprivileged_userns_clone",
            "0",
            "sysctl kernel.unprivileged_userns_clone=1",
        ),
        (
            1000,
            "kernel/apparmor_restrict_unprivileged_userns",
            "1",
            "sysctl kernel.apparmor_restrict_unprivileged_userns=0",
        ),
        (1000, "kernel/unprivileged_userns_clone", "1", "let the container or the unit"),
    ],
)
def test_what_cannot_be_made_is_told_with_the_setting_that_forbids_it(
    monkeypatch, tmp_path, uid, setting, value, remedy
):
    file = tmp_path / "proc/sys" / setting
    file.parent.mkdir(parents=True)
    file.write_text(f"{value}\n")
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    found, *_ = namespaces.findings(f"{tmp_path}/", lambda flags: errno.EPERM)
    assert found.level is Level.WARNING
    assert "no --remote-io" in found.text and "Operation not permitted" in found.text
    assert found.remedy.startswith(remedy)


def test_root_is_told_of_each_thing_that_it_lacks(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    found = [*namespaces.findings(attempt=lambda flags: errno.ENOSPC)]
    assert [each.text.partition(":")[0] for each in found] == [
        "no mount namespaces",
        "no PID and IPC namespaces",
    ]


def test_a_trial_makes_namespaces_for_its_own_process_only():
    before = namespaces.own()
    assert namespaces.trial(0) == 0
    assert namespaces.trial(0x1) == errno.EINVAL  # no flag that there is
    namespaces.trial(namespaces.NEW_USER | namespaces.NEW_MOUNT)
    assert namespaces.own() == before
