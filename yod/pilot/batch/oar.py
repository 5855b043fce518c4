"""OAR: oarsub, oarstat, oardel, oarsh.

A job of OAR is a command line, which is for all to read, and OAR does not carry the script that it
names. Where the job's first node has that, the command line runs it. Where it does not, the
command line makes a pipe that is its user's alone, and runs what comes from that: the same script,
which the client sends there by oarsh, a remote shell that OAR grants to the job's user.
"""

from __future__ import annotations

import re
import shlex

from yod.pilot.batch.ends import End
from yod.pilot.batch.system import Ask, Home, JobStage, Stand

_ID = re.compile(r"^OAR_JOB_ID=(\d+)$", re.M)
_VALUE = re.compile(r"^\s*(state|exit_code|message|assigned_hostnames) = (.*)$", re.M)
_EVENT = re.compile(r"^\S+ \S+> \[\d+\] (\w+): (?:\[[^]]*\] )?(.*)$", re.M)
_SAYS_NOTHING = "SWITCH_INTO_ERROR_STATE"
# What has happened to a job says why it is in error, which its state does not.
_QUERY = 'oarstat --full --job "$1" && { oarstat --events --job "$1" || :; }'
_WAITING = frozenset(("Waiting", "Hold", "toLaunch", "toAckReservation", "Launching"))
_RUNNING = frozenset(("Running", "Finishing", "Suspended", "Resuming", "toError"))
_BEGUN = "Running"
_PIPE = "/tmp/yod-oar-"  # and the job's id
_SENT_S = 60  # for the pipe's other end to be there
_UNSENT_S = 300  # the client asks for the job's state every 30 s


class Oar:
    """Jobs by oarsub."""

    name = "oar"
    mark = "OAR"
    keeps_log = False  # the job may have no place for it
    has_hosts = True

    def head(self, ask: Ask) -> list[str]:
        """The options of a job, each with its value behind a blank, as ``--scanscript`` wants."""
        nodes = ask.nodes or (-(-ask.cores // ask.cores_per_node) if ask.cores_per_node else 0)
        parts = [f"nodes={nodes}"] if nodes and (ask.is_exclusive or not ask.cores) else []
        if not parts:
            own = -(-ask.cores // ask.nodes) if ask.nodes else ask.cores
            parts = [*([f"nodes={ask.nodes}"] if ask.nodes else []), f"core={own}"]
        lines = [f"-n {ask.name}", "-d /", "-O /dev/null", "-E /dev/null"]
        lines.append(f"-l /{'/'.join(parts)},walltime={ask.clock}")
        if ask.hosts:
            names = ", ".join(f"'{host}'" for host in ask.hosts)
            lines.append(f"-p network_address in ({names})")
        if ask.queue:
            lines.append(f"-q {ask.queue}")
        if ask.project:
            lines.append(f"--project {ask.project}")
        return [*lines, *(word if word.startswith("-") else f"-p {word}" for word in ask.options)]

    def submit(self, ask: Ask, home: Home) -> list[str]:
        """A command line that runs the script, or what is sent."""
        options = [word for line in self.head(ask) for word in line.split(" ", 1)]
        script, python = shlex.quote(home.script), shlex.quote(home.caller[0])
        command = "; ".join(
            (
                f"cd {shlex.quote(home.directory)} 2>/dev/null || cd /",
                f"grep -qs {home.mark} {script} && exec {script}",
                f"[ -x {python} ] || exit {End.NO_YOD}",
                f"pipe={_PIPE}$OAR_JOB_ID",
                f'mkfifo -m 600 "$pipe" || exit {End.NO_PIPE}',
                f'script=$(timeout {_UNSENT_S} cat "$pipe")',
                'rm -f "$pipe"',
                f'[ -n "$script" ] || exit {End.NO_SCRIPT}',
                'eval "$script"',
            )
        )
        return ["oarsub", *options, shlex.join(["exec", "/bin/sh", "-c", command])]

    def send(self, job_id: str, output: str) -> list[str]:
        """To its first node; it takes nothing where there is no pipe, or somebody else's."""
        values = dict(_VALUE.findall(output))
        host = values.get("assigned_hostnames", "").partition("+")[0].strip()
        if values.get("state", "").strip() != _BEGUN or not host:
            return []
        pipe = f"{_PIPE}{job_id}"
        take = f"test -p {pipe} && test -O {pipe} && timeout {_SENT_S} tee {pipe} >/dev/null"
        return ["env", f"OAR_JOB_ID={job_id}", "oarsh", host, take]

    def read_id(self, output: str) -> str:
        """Of the line ``OAR_JOB_ID=17``."""
        found = _ID.search(output)
        return found[1] if found else ""

    def query(self, job_id: str) -> list[str]:
        """All of it, and what has happened to it."""
        return ["sh", "-c", _QUERY, "oarstat", job_id]

    def read_stand(self, status: int, output: str) -> Stand:
        """``state = Waiting``."""
        values = dict(_VALUE.findall(output))
        state = values.get("state", "").strip()
        if status or not state:
            return Stand(JobStage.OVER, "oar has it no more")
        message = values.get("message", "").strip()
        words = f"{state} ({message})" if message and state in _WAITING else state
        if state in _WAITING:
            return Stand(JobStage.WAITING, words)
        if state in _RUNNING:
            return Stand(JobStage.RUNNING, words)
        events = [text for name, text in _EVENT.findall(output) if name != _SAYS_NOTHING]
        code = values.get("exit_code", "").partition(" ")[0]
        own = int(code) >> 8 if code.isdecimal() else None
        return Stand(JobStage.OVER, f"{words} ({events[-1]})" if events else words, own)

    def cancel(self, job_id: str) -> list[str]:
        """One that is over is as good as cancelled."""
        return ["oardel", job_id]
