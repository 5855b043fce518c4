"""A stand-in for OpenPBS: jobs on hosts of namespaces, and its commands as the real ones are.

It is no scheduler. What was seen of OpenPBS 23.06.06 and a naive launcher trips over:

- a line of PBS_NODEFILE is a process slot; `pbsdsh` without `-n` runs once for each line, `-n`
  counts lines, and `-u` does not exist; its own exit status says nothing of the task's
- a task gets an empty standard input, the job's environment and not that of the script, and writes
  to the job's output
- whoever has PBS_JOBCOOKIE may start tasks in the job
- `pbsdsh` passes SIGHUP, SIGINT and SIGTERM to its tasks and ends at once
- the end of a job: SIGTERM to the sessions of its tasks on the first host alone; SIGKILL to those
  on all hosts, some time later; nothing to a process that has a session of its own
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.hosts import Host
from tests.support.wait import LIMIT_S, wait_until

KILL_DELAY_S = 4.0  # 20 s in the real one

_PBSDSH = """\
#!{python} -S
import getopt, json, os, signal, socket, sys
try:
    options, words = getopt.getopt(sys.argv[1:], "c:n:svo")
except getopt.GetoptError as error:
    print(f"{{sys.argv[0]}}: {{error}}", file=sys.stderr)
    sys.exit(1)
if not words:
    sys.exit("Usage: pbsdsh [-c copies][-s][-v][-o] -- program [args...]")
if "PBS_ENVIRONMENT" not in os.environ:
    sys.exit("pbsdsh: not executing under PBS")
caught = []
reader, writer = os.pipe()
os.set_blocking(writer, False)
signal.set_wakeup_fd(writer)
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, frame: caught.append(number))
end = socket.socket(socket.AF_UNIX)
end.connect({path!r})
said = {{name: os.environ.get(name, "") for name in ("PBS_JOBID", "PBS_JOBCOOKIE")}}
end.sendall(json.dumps({{**said, "options": options, "words": words}}).encode() + b"\\n")
import select
with end.makefile("rb", buffering=0) as lines:
    while True:
        ready = select.select([reader, lines], [], [])[0]
        if caught:
            print("pbsdsh: killing tasks, signal", caught[0], flush=True)
            end.sendall(json.dumps(caught[0]).encode() + b"\\n")
            sys.exit(1)
        if lines in ready:
            if not (line := lines.readline()):
                break
            print(line.decode(), end="", flush=True)
            if line.startswith(b"pbsdsh: tm_init failed"):
                sys.exit(1)
"""
_QSTAT = """\
#!{python} -S
import pathlib, sys
if len(sys.argv) != 3 or sys.argv[1] != "-f":
    sys.exit("usage: qstat -f job_identifier")
name = sys.argv[2]
for path in (pathlib.Path({directory!r}) / name, pathlib.Path({directory!r}) / (name + ".pbs")):
    if "/" not in name and path.is_file():
        print(path.read_text(), end="")
        sys.exit()
print("qstat: Unknown Job Id", name, file=sys.stderr)
sys.exit(153)
"""


_QSUB = """\
#!{python} -S
import json, pathlib, socket, sys
if len(sys.argv) != 2:
    sys.exit("usage: {name} OPERAND")
operand = pathlib.Path(sys.argv[1]).read_text() if "{name}" == "qsub" else sys.argv[1]
end = socket.socket(socket.AF_UNIX)
end.connect({path!r})
end.sendall(json.dumps({{"{name}": operand}}).encode() + b"\\n")
print(end.makefile().read(), end="")
"""


class Pbs:
    """The server, and the moms of all hosts, in a thread of the test.

    Args:
        directory: for commands, jobs and their output.

    Attributes:
        bin: the directory of its commands.
        taken: makes a job of a script that is handed in by the command.
        is_late: that command answers when the job is over.
    """

    def __init__(self, directory: Path, hosts: Sequence[Host]) -> None:
        self.hosts = list(hosts)
        self.bin = directory / "bin"
        self.jobs = directory / "jobs"
        for made in (self.bin, self.jobs):
            made.mkdir(parents=True)
        self._socket = socket.socket(socket.AF_UNIX)
        path = str(directory / "mom")
        self._socket.bind(path)
        self._socket.listen()
        self._job_by_id: dict[str, Job] = {}
        self.taken: Callable[[str], Job] | None = None
        self.is_late = False
        words = {"python": sys.executable, "path": path, "directory": str(self.jobs)}
        texts = {"pbsdsh": _PBSDSH, "qstat": _QSTAT, "qsub": _QSUB, "qdel": _QSUB}
        for name, text in texts.items():
            (self.bin / name).write_text(text.format(name=name, **words))
            (self.bin / name).chmod(0o755)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def qsub(self, script: str, lines: Sequence[int], env: Mapping[str, str], **given: Any) -> Job:
        """Run a shell script in a job, whose node file has these hosts, by number, as its lines."""
        job = Job(self, len(self._job_by_id), lines, env)
        self._job_by_id[job.id] = job
        job.begin(script, **given)
        return job

    def close(self) -> None:
        """End all jobs, and the server."""
        for job in self._job_by_id.values():
            job.kill()
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(LIMIT_S)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._converse, args=(connection,), daemon=True).start()

    def _converse(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as lines:
            asked = json.loads(lines.readline())
            if "qsub" in asked and self.taken is not None:
                job = self.taken(asked["qsub"])
                for answers in (not self.is_late, self.is_late):
                    if answers:
                        with contextlib.suppress(OSError):  # nobody waits for it any more
                            connection.sendall(f"{job.id}\n".encode())
                            connection.shutdown(socket.SHUT_WR)
                    else:
                        job.script.wait()
                        job.kill()
                return
            if "qdel" in asked:
                self._job_by_id[asked["qdel"]].qdel()
                return
            job = self._job_by_id.get(asked["PBS_JOBID"])
            if job is None or job.cookie != asked["PBS_JOBCOOKIE"] or job.is_ending:
                connection.sendall(b"pbsdsh: tm_init failed, rc = TM_ESYSTEM (17000)\n")
                return
            options = dict(asked["options"])
            places = range(len(job.lines))
            if "-n" in options:
                places = range(int(options["-n"]), int(options["-n"]) + 1)
            tasks = [job.task(place, asked["words"]) for place in places]
            threading.Thread(target=_pass_on, args=(lines, tasks), daemon=True).start()
            with contextlib.suppress(OSError):  # it has ended before its tasks
                for task in tasks:
                    if status := task.wait():
                        connection.sendall(f"pbsdsh: task exit status {status}\n".encode())
                connection.shutdown(socket.SHUT_RDWR)


class Job:
    """One job.

    Attributes:
        cookie: whoever has it may start tasks.
        output: the file that its script and all its tasks write.
    """

    def __init__(self, pbs: Pbs, number: int, lines: Sequence[int], env: Mapping[str, str]) -> None:
        self.id = f"{number}.pbs"
        self.lines = list(lines)
        self.cookie = os.urandom(16).hex().upper()
        self.output = pbs.jobs / f"{self.id}.OU"
        self.is_ending = False
        self._pbs = pbs
        self._number_of = {host: number for number, host in enumerate(dict.fromkeys(lines))}
        self._tasks: list[tuple[Host, subprocess.Popen[bytes]]] = []
        self._lock = threading.Lock()
        self._nodefile = pbs.jobs / f"{self.id}.nodes"
        self._nodefile.write_text("".join(f"{pbs.hosts[line].name}\n" for line in lines))
        self._env = {
            **env,
            "ENVIRONMENT": "BATCH",
            "PBS_ENVIRONMENT": "PBS_BATCH",
            "PBS_JOBID": self.id,
            "PBS_JOBCOOKIE": self.cookie,
            "PBS_NODEFILE": str(self._nodefile),
            "PBS_MOMPORT": "15003",
            "PBS_O_WORKDIR": os.getcwd(),
            "NCPUS": "1",
            "OMP_NUM_THREADS": "1",
            "PATH": "/usr/local/bin:/usr/bin:/bin",
        }

    def begin(self, script: str, **given: Any) -> None:
        """Start the script, as the first task; `given` is added to the environment of it alone."""
        path = f"{self._pbs.bin}:{given.pop('path', '')}:{self._env['PATH']}"
        self.script = self._spawn(0, ["sh", "-c", f"export PATH={path}\n{script}"])
        self._tell_qstat("R")

    def task(self, place: int, words: Sequence[str]) -> subprocess.Popen[bytes]:
        """Start a task on the host of a line of the node file."""
        return self._spawn(place, words)

    def wait(self) -> str:
        """What the job has written, when its script has ended; then the job is over."""
        self.script.wait(LIMIT_S)
        self.kill()
        return self.output.read_text()

    def qdel(self) -> None:
        """End the job as the real one does; returns when it is gone."""
        self.is_ending = True
        self._tell_qstat("E")
        self._signal(signal.SIGTERM, self._pbs.hosts[self.lines[0]])
        until = time.monotonic() + KILL_DELAY_S
        for _, task in self._tasks:
            with contextlib.suppress(subprocess.TimeoutExpired):
                task.wait(max(0.0, until - time.monotonic()))
        self.kill()

    def kill(self) -> None:
        """SIGKILL to all sessions of tasks on all hosts; the job is over."""
        self.is_ending = True
        self._signal(signal.SIGKILL, None)
        for _, task in self._tasks:
            task.wait(LIMIT_S)
        (self._pbs.jobs / self.id).unlink(missing_ok=True)

    def _spawn(self, place: int, words: Sequence[str]) -> subprocess.Popen[bytes]:
        host = self._pbs.hosts[self.lines[place]]
        with self._lock, open(self.output, "ab") as output:
            env = {
                **self._env,
                "PBS_TASKNUM": str(len(self._tasks) + 1),
                "PBS_NODENUM": str(self._number_of[self.lines[place]]),
            }
            process = host.popen(
                words,
                env=env,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
            self._tasks.append((host, process))
        return process

    def _signal(self, number: int, only: Host | None) -> None:
        """Signal every process of the sessions of tasks, and no other."""
        _signal_sessions({task.pid for host, task in self._tasks if only in (None, host)}, number)

    def _tell_qstat(self, state: str) -> None:
        hosts = "+".join(f"{self._pbs.hosts[line].name}/0" for line in self.lines)
        owner = "root@node0"
        (self._pbs.jobs / self.id).write_text(
            f"Job Id: {self.id}\n    Job_Name = STDIN\n    Job_Owner = {owner}\n"
            f"    job_state = {state}\n    exec_host = {_folded(hosts)}\n"
            f"    Resource_List.nodect = {len(self.lines)}\n    euser = root\n\n"
        )


def _pass_on(lines: Any, tasks: Sequence[subprocess.Popen[bytes]]) -> None:
    with contextlib.suppress(OSError, ValueError):
        for line in lines:
            for task in tasks:
                _signal_sessions({task.pid}, json.loads(line))


def _signal_sessions(sessions: set[int], number: int) -> None:
    for name in os.listdir("/proc"):
        if name.isdigit() and _session(name) in sessions:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(name), number)


def _session(name: str) -> int:
    try:
        return int(Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[3])
    except OSError:  # it has ended
        return 0


def _folded(text: str, width: int = 60) -> str:
    """As `qstat` folds long values: in further lines that begin with a tab."""
    return "\n\t".join(text[at : at + width] for at in range(0, len(text), width))


def all_gone(hosts: Sequence[Host], *words: str) -> None:
    """Wait until no process with one of these words is left on any host."""

    def left() -> list[str]:
        commands = [command for host in hosts for command in host.processes().values()]
        return [c for c in commands if any(word in c for word in words)]

    try:
        wait_until(lambda: not left(), 30.0)
    except AssertionError:
        raise AssertionError(f"left: {left()}") from None
