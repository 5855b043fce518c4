"""yod in jobs of OAR, LSF and Flux, and with a host file.

None of these systems is here. Stand-ins have the commands' documented forms, and one recorded
answer (`flux resource R`); they start what they are given on this host, under the hosts' names.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.leaks import command_line, marked
from tests.support.partition import BIN, Done, down_of_a_job, finish
from tests.support.place import Place
from tests.support.wait import wait_until

# ssh and oarsh join their words for a shell there; blaunch and flux exec do not.
_STAND_INS = {
    "oarsh": 'echo "oarsh $*" >>"$CALLS"; shift; shift; exec sh -c "$*"',
    "ssh": 'echo "ssh $*" >>"$CALLS"; while [ "$1" != -- ]; do shift; done; shift 2; '
    'exec sh -c "$*"',
    "blaunch": 'echo "blaunch $*" >>"$CALLS"; shift; exec "$@"',
    "flux": 'echo "flux $*" >>"$CALLS"; case $1 in resource) exec cat "$RESOURCES" ;; '
    'exec) shift 3; exec "$@" ;; esac; exit 1',
}
# `flux resource R` in an instance of two brokers, flux-core 0.66.
_RESOURCES = {
    "version": 1,
    "execution": {
        "R_lite": [{"rank": "0-1", "children": {"core": "0-2"}}],
        "starttime": 0.0,
        "expiration": 0.0,
        "nodelist": ["n[0-1]"],
    },
}
_HOSTS = "n0\nn0\nn0\nn1\nn1\nn1\n"
_JOBS = {
    "oar": {"OAR_JOB_ID": "4242", "OAR_NODEFILE": "HOSTS"},
    "lsf": {"LSB_JOBID": "17", "LSB_JOBINDEX": "3", "LSB_DJOB_HOSTFILE": "HOSTS"},
    "flux": {"FLUX_URI": "local:///run/flux/local", "FLUX_ENCLOSING_ID": "\u0192ABCd"},
    "hosts": {"YOD_HOST_FILE": "HOSTS"},
}
_NAMES = {
    "oar": "oar job 4242",
    "lsf": "lsf job 17[3]",
    "flux": "flux job fABCd",
    "hosts": "YOD_HOST_FILE ",
}


class Site:
    """A user's place in a job of one of the systems, with two hosts of three slots each."""

    def __init__(self, system: str, place: Place, directory: Path) -> None:
        self.system = system
        self.place = place
        self.calls = directory / "calls"
        (directory / "hosts").write_text(_HOSTS)
        (directory / "resources").write_text(json.dumps(_RESOURCES))
        for name, text in _STAND_INS.items():
            (directory / name).write_text(f"#!/bin/sh\n{text}\n")
            (directory / name).chmod(0o755)
        job = {k: str(directory / "hosts") if v == "HOSTS" else v for k, v in _JOBS[system].items()}
        self.env = {
            **place.environment(),
            "PATH": f"{directory}:{BIN}:{os.environ['PATH']}",
            "CALLS": str(self.calls),
            "RESOURCES": str(directory / "resources"),
            **job,
        }

    def run(self, script: str) -> Done:
        process = subprocess.Popen(
            ["sh", "-c", script],
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        return finish(process)

    def processes(self) -> list[str]:
        return [command_line(unix_pid) for unix_pid in marked(self.place.mark)]


_LONG = [pytest.param(system, marks=pytest.mark.long) for system in ("lsf", "hosts")]


@pytest.fixture(params=["oar", "flux", *_LONG])
def site(request: pytest.FixtureRequest, place: Place, tmp_path: Path) -> Iterator[Site]:
    directory = tmp_path / "site"
    directory.mkdir()
    found = Site(request.param, place, directory)
    yield found
    found.run("yodctl down --force")
    for path in (place.runtime / "yod").glob(f"{found.system}-*"):
        subprocess.run(["rm", "-r", str(path)], check=True)


def test_yod_starts_pcts_by_the_systems_own_command_once(site):
    script = "yod -sz 6 sh -c 'echo $YOD_NODE_NAME'; yod -sz 6 true; yodctl status; yodctl down"
    done = site.run(script)
    assert sorted(done.out.splitlines()[:6]) == ["n0"] * 3 + ["n1"] * 3, done.err
    assert done.err.count(" are up, until it ends (") == 1
    assert done.err.startswith(f"yod: 2 nodes of {_NAMES[site.system]}")
    assert "6 slots: 0 in use" in done.out and down_of_a_job(done.out)
    calls = site.calls.read_text()
    assert not any(len(word) == 64 for word in calls.split())  # the key is in no arguments
    wait_until(lambda: not site.processes())


@pytest.mark.parametrize("site", ["oar"], indirect=True)
def test_status_and_down_say_what_would_be_lost(site):
    began = "mkfifo out; yod -sz 2 sh -c 'echo go; exec sleep 600' >out & exec 3<out; read go <&3"
    script = f"cd $TMPDIR; {began}; yodctl status; yodctl down; yodctl down --force; wait; rm out"
    done = site.run(script)
    assert "`yodctl down --force` would end job 1 (root)\n" in done.out
    assert "  until      the end of oar job 4242, or `yodctl down`\n" in done.out
    assert "job 1 (root) would end: to end jobs say `yodctl down --force`" in done.err
    assert "ended with it: job 1 (root)\n" in done.out
    assert "the hosts stay those of oar job 4242: the next yod there starts pcts again" in done.out


@pytest.mark.parametrize("site", ["oar"], indirect=True)
def test_pcts_end_with_the_process_that_holds_them(site):
    shown = site.run("yodctl up >/dev/null; yodctl status").out
    holder = int(shown.partition("  starter    process ")[2].split()[0])
    os.kill(holder, signal.SIGKILL)
    wait_until(lambda: not site.processes())


@pytest.mark.parametrize("site", ["lsf"], indirect=True)
def test_a_host_without_yod_ends_all_with_its_words(site):
    path = Path(site.env["PATH"].partition(":")[0], "blaunch")
    path.write_text('#!/bin/sh\necho "$1: Connection refused" >&2\nexit 255\n')
    done = site.run("yod true")
    assert done.status == 125
    assert f"yod: {_NAMES[site.system]}" in done.err and " has ended\n" in done.err
    assert ": Connection refused\n" in done.err and "blaunch: ended with exit code 255" in done.err
    wait_until(lambda: not site.processes())
