"""YOD_HOST_FILE: PCTs on the hosts of a file, which a real sshd serves, as a batch job's."""

from __future__ import annotations

import pytest

from tests.support import sshd
from tests.support.hosts import Hosts
from tests.support.pbs import all_gone
from tests.support.place import MARK, Place
from tests.support.sshd import run

pytestmark = pytest.mark.hosts


def test_yod_starts_pcts_on_the_hosts_of_a_file_and_down_ends_them(
    needs_root: None, place: Place, tmp_path
):
    sshd.need()
    directory = tmp_path / "ssh"
    directory.mkdir()
    (tmp_path / "hosts").write_text("node1\nnode1\nnode2 # a comment\n")
    variables = {MARK: place.mark, "XDG_STATE_HOME": str(place.directory / "state")}
    with Hosts(3) as hosts, sshd.serving(directory, list(hosts)[1:], variables) as ssh:
        env = {
            "YOD_SSH": ssh.command,
            "YOD_LAUNCH_SERVER": "cold",
            "YOD_HOST_FILE": str(tmp_path / "hosts"),
        }
        script = "echo $(hostname) $YOD_RANK"
        for count in (1, 0):  # the second finds them
            done = run(hosts[0], "yod", "-sz", "3", "sh", "-c", script, env=env)
            assert sorted(done.out.splitlines()) == ["node1 0", "node1 1", "node2 2"], done.err
            assert done.err.count(" are up, until it ends (") == count
        assert run(hosts[0], "yodctl", "down", env=env).status == 0
        all_gone(list(hosts), "/pct ", "bebopd")
        env["YOD_SSH"] = f"{ssh.command} -p 9"
        done = run(hosts[0], "yod", "true", env=env)
        assert done.status == 125
        assert "ssh has ended\n" in done.err and "Connection refused" in done.err
