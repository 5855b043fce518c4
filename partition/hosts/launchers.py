"""How each batch system starts one PCT on each host of a job. Pure.

Every row is one command for one host, which lives as long as the PCT there. What differs is how
it is told the key, and whether a shell reads its words:

==========  =====================  ============================  ==========================
system      command                key                           ends with
==========  =====================  ============================  ==========================
PBS         pbsdsh -n LINE         made of PBS_JOBCOOKIE, which  the task's end; passes
                                   each task of the job has      SIGTERM on
OAR         oarsh HOST             its standard input            its standard input
LSF         blaunch HOST           its standard input            its standard input
Flux        flux exec -r RANK      its standard input            its standard input
host file   YOD_SSH HOST           its standard input            its standard input
==========  =====================  ============================  ==========================

Slurm has a command for all hosts: :mod:`partition.hosts.slurm`.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping

from msgspec import Struct

from native.errors import PartitionError
from native.limits import MEANINGS, variable
from partition.find.batch import FLUX, HOST_FILE, LSF, OAR, PBS, BatchJob
from partition.hosts.holding import Command

COOKIE = "PBS_JOBCOOKIE"
GRACE_S = 20  # PBS kills what is left so long after SIGTERM
SSH_VARIABLE, SSH = "YOD_SSH", "ssh"

# Without what csh or fish would read otherwise: no newline, no backslash, no exclamation mark.
# The log is the pct's: what a task of PBS writes would be the job's output.
_SCRIPT = (
    "d=$1; n=$2; shift 2; umask 077; p=$d/pct; "
    '[ -x "$p" ] || p=$(command -v pct) || '
    '{ echo "yod: no yod on $n: neither $d/pct nor pct in PATH" >&2; exit 127; }; '
    "l=${XDG_STATE_HOME:-$HOME/.local/state}/yod/logs; "
    '{ mkdir -p "$l" && l=$l/pct.$n.log && : >"$l"; } 2>/dev/null || '
    '{ echo "yod: no log can be written in $l on $n" >&2; exit 1; }; '
    # A signal to all processes of the task is the pct's.
    'unset XDG_RUNTIME_DIR; trap : TERM; "$p" "$@" >"$l" 2>&1; s=$?; '
    '[ $s -eq 0 ] || [ $s -ge 128 ] || echo "yod: $n: $(tail -n 1 "$l")" >&2; exit $s'
)


class Pct(Struct, frozen=True):
    """What is said to every pct of a job.

    Attributes:
        directory: where yod's commands are here; looked at first.
        bebopd: its address.
        tag: of the pcts.
        settings: limits that the user has set, for batch systems that start with others.
    """

    directory: str
    bebopd: str
    tag: str
    settings: tuple[str, ...] = ()


def commands(job: BatchJob, pct: Pct, environment: Mapping[str, str]) -> list[Command]:
    """The command of each host, in the order of the job's nodes.

    Raises:
        PartitionError: something is missing in the environment.
    """
    return [_ROWS[job.system](job, node, pct, environment) for node in range(len(job.slots))]


def program(job: BatchJob, environment: Mapping[str, str]) -> str:
    """The command that starts them, for the user."""
    return _command(job, environment)[0]


def settings(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The limits that are set, as words for ``env``."""
    names = map(variable, MEANINGS)
    return tuple(f"{name}={environment[name]}" for name in names if name in environment)


def _pbs(job: BatchJob, node: int, pct: Pct, environment: Mapping[str, str]) -> Command:
    if not environment.get(COOKIE):
        raise PartitionError(f"{job}: no {COOKIE} in the environment, by which its hosts know us")
    # Its copies have numbers of lines, and not of hosts.
    start = [*_command(job, environment), "-n", str(job.firsts[node]), "--", "env", *pct.settings]
    words = _pct_words(job, node, pct, "--job-secret", COOKIE)
    return Command(job.hosts[node], (*start, *_script(job, node, pct), *words), takes_key=False)


def _by_line(job: BatchJob, node: int, pct: Pct, environment: Mapping[str, str]) -> Command:
    """By a shell on the host, which reads the words anew."""
    words = ["env", *pct.settings, *_script(job, node, pct), *_by_input(job, node, pct)]
    start = [*_command(job, environment), "--", job.hosts[node]]
    return Command(job.hosts[node], (*start, shlex.join(words)))


def _lsf(job: BatchJob, node: int, pct: Pct, environment: Mapping[str, str]) -> Command:
    # LSF may put a shell between or none: these words are the same for both.
    start = [*_command(job, environment), job.hosts[node], f"{pct.directory}/pct"]
    return Command(job.hosts[node], (*start, *_by_input(job, node, pct)))


def _flux(job: BatchJob, node: int, pct: Pct, environment: Mapping[str, str]) -> Command:
    start = [*_command(job, environment), "-r", str(job.firsts[node])]
    return Command(job.hosts[node], (*start, *_script(job, node, pct), *_by_input(job, node, pct)))


def _command(job: BatchJob, environment: Mapping[str, str]) -> list[str]:
    if job.system == HOST_FILE:
        options = ["-o", "BatchMode=yes", "-T"]
        return [*shlex.split(environment.get(SSH_VARIABLE) or SSH), *options]
    return {PBS: ["pbsdsh"], OAR: ["oarsh"], LSF: ["blaunch"], FLUX: ["flux", "exec"]}[job.system]


def _script(job: BatchJob, node: int, pct: Pct) -> list[str]:
    return ["sh", "-c", _SCRIPT, "yod", pct.directory, job.hosts[node]]


def _by_input(job: BatchJob, node: int, pct: Pct) -> list[str]:
    return _pct_words(job, node, pct, "--starter-fd", "0", "--until-fd", "0")


def _pct_words(job: BatchJob, node: int, pct: Pct, *more: str) -> list[str]:
    return [
        *("--bebopd", pct.bebopd, "--node", str(node), "--name", job.hosts[node]),
        *("--slots", str(job.slots[node]), "--tag", pct.tag, "--grace", str(GRACE_S), *more),
    ]


_ROWS: Mapping[str, Callable[[BatchJob, int, Pct, Mapping[str, str]], Command]] = {
    PBS: _pbs,
    OAR: _by_line,
    LSF: _lsf,
    FLUX: _flux,
    HOST_FILE: _by_line,
}
