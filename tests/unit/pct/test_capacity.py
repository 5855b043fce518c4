"""Whether a node can start so many ranks."""

import resource

import pytest

from pct.host import capacity


@pytest.fixture
def node(monkeypatch):
    """A node with 1000 open files, and what is said of limits of processes."""

    def make(*limits):
        monkeypatch.setattr(capacity, "_process_limits", lambda: list(limits))
        monkeypatch.setattr(capacity.os, "listdir", lambda path: ["0", "1", "2"])
        monkeypatch.setattr(resource, "getrlimit", lambda number: (1000, 1000))

    return make


def test_what_fits_is_not_refused(node):
    node(("pids.max", 500, 36))
    assert capacity.refusal(400, 933) == ""


def test_descriptors_that_do_not_suffice_are_named_with_their_limit(node):
    node()
    assert capacity.refusal(500, 1001) == (
        "500 ranks need 1001 descriptors for their streams, 933 are free:"
        " the limit of open files is 1000 (ulimit -Hn)"
    )


def test_processes_that_do_not_suffice_are_named_with_their_limit(node):
    node(("kernel.pid_max", 30000, 100), ("pids.max of the control group /job", 500, 36))
    assert capacity.refusal(401, 803) == (
        "401 ranks need as many processes, 400 are free: pids.max of the control group /job is 500"
    )


def test_the_limits_of_this_host_are_numbers():
    for name, limit, used in capacity._process_limits():
        assert name and limit > 0 and used >= 0
