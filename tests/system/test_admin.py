"""The administrator's page, word by word: bare hosts, real users, MUNGE, ssh, pip.

The hosts have no systemd and no package registry: tests/support/systemctl.py stands in for the
one, a directory of wheels that tests/setup has filled for the other.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support import sshd
from tests.support.hosts import Hosts
from tests.support.page import Step, shows, steps
from tests.support.place import MARK, Place
from tests.support.wait import wait_until

pytestmark = pytest.mark.usefixtures("needs_root")

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/admin.md"
WHEELS = ROOT / ".venv-wheels"
LIMIT_S = 480  # of a command; pip compiles
BUILT = ("bench", "tests", ".git", ".venv*", "__pycache__", ".*_cache", ".hypothesis", "dist")

# Nothing that a command on the page changes is the test host's: what is written below
# these directories is in the host's memory.
_BARE = """
set -e
mount -t tmpfs -o size=64m tmpfs /mnt
for name in etc var; do
    mkdir /mnt/$name /mnt/work-$name
    mount -t overlay -o lowerdir=/$name,upperdir=/mnt/$name,workdir=/mnt/work-$name overlay /$name
done
cp /run/hosts /etc/hosts
rm -rf /etc/yod /etc/munge/munge.key /var/lib/yod
(umask 077; head -c 128 /dev/urandom > /etc/munge/munge.key; chown munge: /etc/munge/munge.key)
echo "PATH=$1/python:\\$PATH" > /etc/profile.d/0python.sh
cp "$1/config" /etc/ssh/ssh_config
mount --bind "$1/$2/opt" /opt
mount --bind "$1/$2/home" /home
mount --bind "$1/src" /usr/src
for name in systemctl journalctl; do mount --bind "$1/$name" /usr/bin/$name; done
"""


class Site:
    """Two bare hosts."""

    def __init__(self, hosts: Hosts, directory: Path, mark: str) -> None:
        self._hosts = {host.name: host for host in hosts}
        self._mark = mark
        (directory / "python").mkdir()
        python = os.path.realpath(sys.executable)
        (directory / "python/python3").symlink_to(python)
        stand_in = (ROOT / "tests/support/systemctl.py").read_text()
        for name in ("systemctl", "journalctl"):
            (directory / name).write_text(f"#!{python}\n{stand_in}")
            (directory / name).chmod(0o755)
        # With what is compiled: make and setuptools compile only what has changed since.
        ignore = shutil.ignore_patterns(*BUILT)
        shutil.copytree(ROOT, directory / "src/yod", ignore=ignore, symlinks=True)
        for host in hosts:
            for name in ("opt", "home"):
                (directory / host.name / name).mkdir(parents=True)
            host.run(["sh", "-c", _BARE, "sh", directory, host.name], check=True)

    def run(self, step: Step) -> str:
        """What a command prints, in a new login."""
        host, home = self._hosts[step.host], f"/home/{step.user}"
        words: list[str] = []
        if step.user == "root":
            home = "/mnt"
        else:
            words = ["setpriv", "--reuid", step.user, "--regid", step.user, "--init-groups"]
            # The tests' Python may lie below a directory that others cannot search.
            words += ["--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search"]
        env = {"HOME": home, "USER": step.user, "LANG": "C.UTF-8", MARK: self._mark}
        env |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(WHEELS), "PIP_CONFIG_FILE": os.devnull}
        done = host.run(
            [*words, "sh", "-lc", step.command],
            env={**env, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
            cwd=home,
            stderr=subprocess.STDOUT,
            timeout=LIMIT_S,
        )
        return done.stdout


@pytest.fixture
def site(place: Place) -> Iterator[Site]:
    sshd.need()
    with (
        tempfile.TemporaryDirectory(prefix="test-of-yod-", dir="/tmp") as name,
        Hosts(2) as hosts,
    ):
        Path(name).chmod(0o755)
        with sshd.serving(Path(name), list(hosts), {MARK: place.mark}):
            yield Site(hosts, Path(name), place.mark)


@pytest.mark.timeout(900)
def test_the_administrators_page_is_true_word_by_word_on_bare_hosts(site: Site) -> None:
    found = steps(PAGE.read_text())
    assert {step.user for step in found} == {"root", "alice", "bob", "olive"}
    for step in found:
        said = [site.run(step)]
        if step.command.startswith("pingd"):  # shows what comes about by itself

            def is_shown(step: Step = step, said: list[str] = said) -> bool:
                said[0] = said[0] if shows(step, said[0]) else site.run(step)
                return shows(step, said[0])

            with suppress(AssertionError):
                wait_until(is_shown, limit_s=30.0)
        assert shows(step, said[0]), f"{step.host}, {step.user}: {step.command}\n{said[0]}"
