"""The directory of jobs' sockets: which ids there are, which are given next, what is left."""

from __future__ import annotations

import errno
import os
import resource
import socket

import pytest

from native.host import jobsockets, unixsockets, userdirs
from native.host.jobsockets import Directory


@pytest.fixture
def environment(tmp_path):
    return {"XDG_RUNTIME_DIR": str(tmp_path), "HOME": "/nonexistent"}


@pytest.fixture
def directory(environment):
    directory = Directory(environment, makes_it=True)
    yield directory
    directory.close()


@pytest.fixture
def is_old(monkeypatch):
    """Every name is old enough to be removed."""
    monkeypatch.setattr(jobsockets, "STALE_AFTER_S", -3600.0)


def os_names(directory):
    """All that is in the directory but for the count, without the mark of this boot."""
    names = set(os.listdir(directory.path)) - {jobsockets.COUNT}
    return sorted(name.partition("@")[0] for name in names)


def listen(directory, job_id=0):
    """Listen until the end of the test; the id."""
    name, end = directory.listen(job_id)
    listening.append(end)
    return name


listening = []


@pytest.fixture(autouse=True)
def no_more_listening():
    yield
    while listening:
        listening.pop().close()


def leave(directory, job_id=0):
    """The id of a job that was killed."""
    name, end = directory.listen(job_id)
    end.close()
    return name


def test_numbers_count_up_and_are_not_given_again(directory):
    for number in (1, 2, 3):
        name, end = directory.listen(0)
        assert name == f"local.{number}"
        end.close()
        os.unlink(directory.name_of(name))
    assert listen(directory) == "local.4"


def test_a_name_that_is_taken_is_passed_over(directory, environment):
    assert listen(directory) == "local.1"
    os.unlink(os.path.join(userdirs.jobs(environment), jobsockets.COUNT))
    assert listen(directory) == "local.2"


def test_after_many_numbers_the_count_begins_anew(directory, environment):
    listen(directory)
    os.truncate(os.path.join(userdirs.jobs(environment), jobsockets.COUNT), jobsockets.WRAP - 1)
    assert listen(directory) == f"local.{jobsockets.WRAP}"
    assert listen(directory) == "local.2"  # local.1 still listens


def test_the_ids_are_in_order_and_nothing_else_is_one(directory, environment):
    for job_id in (0, 17, 3, 0):
        listen(directory, job_id)
    mark = "@" + userdirs.boot_id()[:8]
    for name in (
        "local.5@another1",
        "local.x" + mark,
        "017" + mark,
        "\n" + mark,
        mark,
        "local." + mark,
    ):
        open(os.path.join(userdirs.jobs(environment), name), "w").close()
    assert directory.ids() == ["3", "17", "local.1", "local.2"]


@pytest.mark.parametrize("job_id", ["local.9", "9", "", ".", "../jobs/local.1", "local.1@x", "٣"])
def test_there_is_no_connection_to_what_is_no_job(directory, job_id):
    listen(directory)
    assert directory.connect(job_id) is None


def test_a_connection_tells_each_end_who_the_other_is(directory):
    name, end = directory.listen(0)
    ours = directory.connect(name)
    fd, _ = end._accept()
    theirs = socket.socket(fileno=fd)
    for each in (ours, theirs):
        assert unixsockets.peer_of(each) == (os.getpid(), os.geteuid())
        each.close()
    end.close()


def test_the_name_of_a_killed_job_is_removed(directory, environment, is_old):
    name = leave(directory)
    assert directory.connect(name) is None
    assert directory.ids() == []


def test_a_young_name_stays_as_another_job_may_just_have_taken_it(directory):
    name = leave(directory)
    assert directory.connect(name) is None
    assert directory.ids() == [name]


def test_a_job_has_its_name_only_when_it_listens(directory, monkeypatch):
    link, reached = os.link, []

    def then_connect(nameless, name, **directories):
        link(nameless, name, **directories)
        reached.append(directory.connect("local.1"))

    monkeypatch.setattr(os, "link", then_connect)
    listen(directory)
    (end,) = reached
    assert end is not None
    end.close()
    assert directory.ids() == os_names(directory) == ["local.1"]


def test_a_launch_that_was_killed_before_it_had_its_name_leaves_nothing_for_long(
    directory, is_old, monkeypatch
):
    monkeypatch.setattr(jobsockets, "_SWEEP_EVERY", 1)
    open(os.path.join(directory.path, "new.0123456789abcdef"), "w").close()
    listen(directory)
    assert os_names(directory) == ["local.1"]


def test_a_launch_now_and_then_removes_what_killed_ones_have_left(directory, is_old, monkeypatch):
    monkeypatch.setattr(jobsockets, "_SWEEP_EVERY", 4)
    living = listen(directory)
    left = [leave(directory) for _ in range(2)]
    assert directory.ids() == [living, *left]
    assert listen(directory) == "local.4"
    assert directory.ids() == [living, "local.4"]


def test_the_number_of_another_partitions_living_job_is_left_to_it(directory):
    assert listen(directory, 17) == "17"
    assert listen(directory, 17) == "local.1"


def test_the_number_of_a_killed_job_is_taken_over(directory, is_old):
    assert leave(directory, 17) == "17"
    assert listen(directory, 17) == "17"


def test_a_path_longer_than_the_address_of_a_socket_does(tmp_path):
    long = tmp_path / ("d" * 200)
    long.mkdir()
    directory = Directory({"XDG_RUNTIME_DIR": str(long)}, makes_it=True)
    name = listen(directory)
    directory.connect(name).close()
    directory.close()


def test_a_strange_umask_does_not_keep_the_owner_out(directory):
    before = os.umask(0o777)
    try:
        name = listen(directory)
    finally:
        os.umask(before)
    assert os.stat(directory.name_of(name)).st_mode & 0o777 == 0o600


def test_nothing_but_the_directory_below_an_existing_one_is_made(tmp_path):
    home = tmp_path / "home"
    with pytest.raises(FileNotFoundError):
        Directory({"HOME": str(home)}, makes_it=True)
    home.mkdir()
    with pytest.raises(FileNotFoundError):
        Directory({"HOME": str(home)})
    assert os.listdir(home) == []
    Directory({"HOME": str(home)}, makes_it=True).close()
    made = home / ".local/state/yod/jobs"
    assert made.stat().st_mode & 0o777 == 0o700


def test_a_directory_of_another_users_is_not_used(environment, needs_root):
    Directory(environment, makes_it=True).close()
    path = userdirs.jobs(environment)
    os.chown(path, 65534, 65534)
    with pytest.raises(PermissionError):
        Directory(environment)
    os.rmdir(path)
    os.symlink("/etc", path)
    with pytest.raises(OSError) as caught:
        Directory(environment, makes_it=True)
    assert caught.value.errno in (errno.ELOOP, errno.ENOTDIR)


@pytest.mark.parametrize("what", ["link", "directory"])
def test_a_count_that_is_no_file_gives_no_number(directory, environment, tmp_path, what):
    path = os.path.join(userdirs.jobs(environment), jobsockets.COUNT)
    if what == "link":
        os.symlink(tmp_path / "other", path)
    else:
        os.mkdir(path)
    with pytest.raises(OSError):
        directory.listen(0)
    assert not (tmp_path / "other").exists()


def test_without_a_number_nothing_is_left(directory):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        with pytest.raises(OSError):
            directory.listen(0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert directory.ids() == []


def test_a_step_is_found_by_its_allocations_id_and_its_own(directory):
    ends = [directory.listen(*each) for each in ((3, "17"), (20, "17"), (2, "local.4"), (18, ""))]
    assert directory.ids() == ["17.3", "17.20", "18", "local.4.2"]
    for _, end in ends:
        end.close()


@pytest.mark.parametrize("text", ["17", "17.3", "local.2", "local.2.3"])
def test_an_id_is_a_number_or_two_behind_what_is_local(text):
    assert jobsockets.is_id(text)


@pytest.mark.parametrize("text", ["", "0", "17.", "17.0", ".3", "1.2.3", "local", "local.", "a.1"])
def test_nothing_else_is_an_id(text):
    assert not jobsockets.is_id(text)
