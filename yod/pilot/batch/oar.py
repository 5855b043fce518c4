"""OAR: oarsub, oarstat, oardel."""

from __future__ import annotations

import re

from yod.pilot.batch.system import Ask, JobStage, Stand

_ID = re.compile(r"^OAR_JOB_ID=(\d+)$", re.M)
_VALUE = re.compile(r"^\s*(state|exit_code|message) = (.*)$", re.M)
_EVENT = re.compile(r"^\S+ \S+> \[\d+\] (\w+): (?:\[[^]]*\] )?(.*)$", re.M)
_SAYS_NOTHING = "SWITCH_INTO_ERROR_STATE"
# What has happened to a job says why it is in error, which its state does not.
_QUERY = 'oarstat --full --job "$1" && { oarstat --events --job "$1" || :; }'
_WAITING = frozenset(("Waiting", "Hold", "toLaunch", "toAckReservation", "Launching"))
_RUNNING = frozenset(("Running", "Finishing", "Suspended", "Resuming", "toError"))


class Oar:
    """Jobs by oarsub."""

    name = "oar"
    mark = "OAR"
    carries = False
    keeps_log = True
    has_hosts = True

    def head(self, ask: Ask) -> list[str]:
        """The options of a job, each with its value behind a blank, as its scanner wants them."""
        nodes = ask.nodes or (-(-ask.cores // ask.cores_per_node) if ask.cores_per_node else 0)
        parts = [f"nodes={nodes}"] if nodes and (ask.is_exclusive or not ask.cores) else []
        if not parts:
            own = -(-ask.cores // ask.nodes) if ask.nodes else ask.cores
            parts = [*([f"nodes={ask.nodes}"] if ask.nodes else []), f"core={own}"]
        lines = [f"-n {ask.name}", f"-O {ask.log}", f"-E {ask.log}"]
        lines.append(f"-l /{'/'.join(parts)},walltime={ask.clock}")
        if ask.hosts:
            names = ", ".join(f"'{host}'" for host in ask.hosts)
            lines.append(f"-p network_address in ({names})")
        if ask.queue:
            lines.append(f"-q {ask.queue}")
        if ask.project:
            lines.append(f"--project {ask.project}")
        return [*lines, *(word if word.startswith("-") else f"-p {word}" for word in ask.options)]

    def submit(self, script: str) -> list[str]:
        """Its options are in the script."""
        return ["oarsub", "--scanscript", script]

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
        return Stand(JobStage.OVER, f"{words} ({events[-1]})" if events else words)

    def cancel(self, job_id: str) -> list[str]:
        """One that is over is as good as cancelled."""
        return ["oardel", job_id]
