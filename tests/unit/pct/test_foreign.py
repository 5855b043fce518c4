"""What a foreign mpirun inside a job is told."""

import os
import stat
import tempfile

import pytest

from pct.host import hostfiles
from pct.wireup import foreign

NODES = (("n0", 2), ("n1", 1))
TEXTS = foreign.host_files(NODES)


def test_host_files_name_the_nodes_and_their_ranks():
    assert foreign.host_files(NODES) == (b"n0 slots=2\nn1 slots=1\n", b"n0:2\nn1:1\n")


def test_each_launcher_is_told_its_remote_shell_and_its_hosts():
    told = dict(
        entry.split(b"=", 1) for entry in foreign.variables(b"/bin/yod-agent", b"/o", b"/h")
    )
    agents = {name for name, value in told.items() if value == b"/bin/yod-agent"}
    assert agents == {
        b"PRTE_MCA_plm_ssh_agent",
        b"OMPI_MCA_plm_rsh_agent",
        b"HYDRA_BOOTSTRAP_EXEC",
        b"I_MPI_HYDRA_BOOTSTRAP_EXEC",
    }
    hosts = {name: value for name, value in told.items() if value in (b"/o", b"/h")}
    assert hosts == {
        b"PRTE_MCA_prte_default_hostfile": b"/o",
        b"OMPI_MCA_orte_default_hostfile": b"/o",
        b"HYDRA_HOST_FILE": b"/h",
        b"I_MPI_HYDRA_HOST_FILE": b"/h",
    }


def test_host_files_are_the_owners_and_are_removed(tmp_path):
    paths = hostfiles.write(str(tmp_path), os.getuid(), os.getgid(), TEXTS)
    texts = []
    for path in paths:
        with open(path, "rb") as file:
            texts.append(file.read())
            assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == 0o600
    assert tuple(texts) == TEXTS
    hostfiles.remove(paths)
    hostfiles.remove(paths)
    assert list(tmp_path.iterdir()) == []


def test_host_files_of_two_jobs_are_apart(tmp_path):
    first = hostfiles.write(str(tmp_path), os.getuid(), os.getgid(), TEXTS)
    second = hostfiles.write(str(tmp_path), os.getuid(), os.getgid(), TEXTS)
    assert not set(first) & set(second)


def test_host_files_that_cannot_be_written_leave_nothing_behind(tmp_path):
    with pytest.raises(OSError):
        hostfiles.write(str(tmp_path / "absent"), os.getuid(), os.getgid(), TEXTS)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("mode", "is_there"), [(0o755, True), (0o711, True), (0o700, False)])
def test_host_files_are_where_the_owner_can_get(monkeypatch, mode, is_there):
    """Asked for a user who is not us, without becoming one."""
    monkeypatch.setattr(os, "fchown", lambda fd, uid, gid: None)
    with tempfile.TemporaryDirectory(dir="/tmp") as parent:
        os.chmod(parent, mode)
        paths = hostfiles.write(parent, os.getuid() + 1, os.getgid(), TEXTS)
        hostfiles.remove(paths)
        assert {os.path.dirname(path) for path in paths} == {
            os.fsencode(parent if is_there else "/tmp")
        }
