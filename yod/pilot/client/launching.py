"""Starts the agent of a pilot: on this host, or as the command of an allocation."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct, json
from msgspec.structs import replace

from native.errors import UsageError, YodError
from native.limits import Limits
from yod.pilot.agent.settings import Settings
from yod.pilot.link.greeting import Address
from yod.pilot.model.description import PilotDescription
from yod.pilot.model.resources import Resource
from yod.pilot.model.sizes import NodeSize

if TYPE_CHECKING:
    from yod.pilot.batch.system import Ask, Home, System

LOG = "agent.log"
KEY = "nodes.key"  # of nodes that do not see the session's directory
JOB_LOG = "job.log"
_MODULE = "yod.pilot.agent.cli"
_MINUTE_S = 60.0
_CALL_FD = 3  # of a job's connection, in the process that lives as long
_BEGIN_MINUTES = 2.0  # of a job, for the daemons of its nodes to come and go
# What is said to a job of the partition that this process uses is not meant for its own nodes.
_OF_THIS_HOST = ("YOD_PARTITION", "YOD_ALLOCATION", "YOD_KEY_FILE", "YOD_RUN_DIRECTORY")


class Wanted(Struct):
    """A pilot that is to begin.

    Attributes:
        directory: its sandbox; socket: the client's.
    """

    session_uid: str
    uid: str
    description: PilotDescription
    resource: Resource
    directory: str
    socket: str
    limits: Limits
    goes_on: bool = True


def local_nodes(description: PilotDescription) -> list[NodeSize]:
    """The nodes of a pilot on this host: as many cores as it asks for, or as there are."""
    value = description.value
    here = len(os.sched_getaffinity(0))
    name = os.uname().nodename
    count = value("nodes") or 1
    cores = value("cores") or here * count
    each = -(-cores // count)
    memory = value("memory") or _memory_mb()
    nodes = []
    for n in range(count):
        own = min(each, cores - n * each)
        if own > 0:
            nodes.append(NodeSize(name, own, -(-value("gpus") // count), memory // count))
    nodes += nodes[:1] * value("backup_nodes")
    return nodes


def demand_channels(resource: Resource, where: str) -> None:
    """See that a pilot on a resource can have channels.

    Raises:
        UsageError: it cannot.
    """
    from importlib.util import find_spec

    if not resource.is_local:
        raise UsageError(
            f"{where}: 'app_comm' is refused: its channels are sockets of this host, which nobody"
            f" else can open, and the nodes of {resource.label} are others"
        )
    if find_spec("zmq") is None:
        raise UsageError(f"{where}: 'app_comm' needs pyzmq: pip install 'yod[pilot]'")


def start(pilot: Wanted) -> int:
    """Start an agent, in a session of its own, and return its process id.

    Raises:
        UsageError: the description is wrong.
        YodError: it cannot be started.
    """
    value, resource = pilot.description.value, pilot.resource
    if resource.is_local and (value("queue") or value("project")):
        raise UsageError(f"{pilot.uid}: {resource.label} has no queues and projects")
    if value("candidate_hosts") and (resource.is_local or resource.is_job):  # the job it is in
        raise UsageError(f"{pilot.uid}: 'candidate_hosts': {resource.label} has no choice of hosts")
    words = [sys.executable, "-P", "-m", _MODULE, json.encode(_settings(pilot)).decode()]
    if resource.is_job:
        words = ["/bin/sh", _write_script(pilot, None, None)]
    elif not resource.is_local:
        words = [*_allocation(pilot.description), *words]
    return _spawn(pilot, words, os.environ)


def start_here(pilot: Wanted, address: str, key: bytes, call: int) -> int:
    """Start the agent of a job whose nodes do not see the session's directory: on this host.

    It is the command of an allocation of the partition that the job's nodes are.

    Args:
        address: of that partition; key: of it.
        call: the job's connection. The job ends when nobody has it any more.

    Returns:
        The process id of who holds the allocation.

    Raises:
        YodError: it cannot be started.
    """
    path = os.path.join(pilot.directory, KEY)
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(fd, "wb") as file:
            file.write(key)
    except OSError as error:
        raise YodError(f"{path}: {error.strerror}") from None
    settings = replace(_settings(pilot), is_remote=False)
    held = _held(pilot.description, pilot.resource, _ask(pilot))
    words = [sys.executable, "-P", "-m", "partition.yodjob", "alloc", "-quiet"]
    words += ["--partition", address, *held]
    words += [sys.executable, "-P", "-m", _MODULE, json.encode(settings).decode()]
    kept = {name: value for name, value in os.environ.items() if name not in _OF_THIS_HOST}
    return _spawn(pilot, words, {**kept, "YOD_KEY_FILE": path}, call)


def _spawn(pilot: Wanted, words: list[str], environment: Mapping[str, str], call: int = -1) -> int:
    log = os.path.join(pilot.directory, LOG)
    appending = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    try:
        os.makedirs(pilot.directory, exist_ok=True)
        return os.posix_spawn(
            words[0],
            words,
            environment,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, log, appending, 0o644),
                (os.POSIX_SPAWN_DUP2, 1, 2),
                *((os.POSIX_SPAWN_CLOSE, fd) for fd in _inheritable()),
                *([(os.POSIX_SPAWN_DUP2, call, _CALL_FD)] if call >= 0 else []),
            ],
            setsid=True,
            setsigmask=[],
            setsigdef=[signal.SIGPIPE, signal.SIGINT, signal.SIGTERM, signal.SIGHUP],
        )
    except OSError as error:
        raise YodError(f"{pilot.uid}: its agent cannot be started: {error.strerror}") from None


def write_job(pilot: Wanted, system: System, to: Address) -> list[str]:
    """Write the script of a pilot's job, and return the command that hands it in.

    Args:
        to: where the job calls the client.

    Raises:
        UsageError: the description is wrong.
        YodError: it cannot be written.
    """
    from yod.pilot.batch.system import Home
    from yod.pilot.site.jobs import CALLER, SCRIPT

    ask = _ask(pilot)
    if ask.hosts and not system.has_hosts:
        raise UsageError(f"{pilot.uid}: 'candidate_hosts': {system.name} has no choice of hosts")
    path = os.path.join(pilot.directory, SCRIPT)
    caller = [sys.executable, "-P", "-m", CALLER, pilot.uid, to.host, str(to.port)]
    home = Home(path, os.urandom(8).hex(), caller, to.key.hex(), to.host, os.getcwd())
    _write_script(pilot, system, home)
    return system.submit(ask, home)


def _write_script(pilot: Wanted, system: System | None, home: Home | None) -> str:
    from yod.pilot.batch.system import script
    from yod.pilot.site.jobs import SCRIPT

    resource, ask = pilot.resource, _ask(pilot)
    path = os.path.join(pilot.directory, SCRIPT)
    text = script(
        system,
        ask,
        resource.before,
        _environment(),
        sys.executable,
        _held(pilot.description, resource, ask),
        [sys.executable, "-P", "-m", _MODULE, json.encode(_settings(pilot)).decode()],
        home,
    )
    try:
        os.makedirs(pilot.directory, exist_ok=True)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o700)
        with open(fd, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise YodError(f"{path}: {error.strerror}") from None
    return path


def _settings(pilot: Wanted) -> Settings:
    value, resource = pilot.description.value, pilot.resource
    gpus, memory = value("gpus"), value("memory")
    if resource.is_job:
        ask = _ask(pilot)
        gpus, memory = ask.gpus_per_node, ask.mem_per_node_mb or resource.mem_per_node
    return Settings(
        pilot.session_uid,
        pilot.uid,
        resource.label,
        os.path.dirname(pilot.directory),
        pilot.directory,
        pilot.socket,
        local_nodes(pilot.description) if resource.is_local else [],
        value("runtime") * _MINUTE_S,
        pilot.limits.kill_delay_s,
        gpus,
        memory,
        resource.lfs_per_node,
        resource.is_job,
        pilot.goes_on,
        {one["uid"]: dict(one) for one in value("services")},
        pilot.limits.pilot_silent_s,
        value("backup_nodes"),
        value("reconfig_src"),
        tuple(value("app_comm")),
    )


def _ask(pilot: Wanted) -> Ask:
    """What is asked of a batch system.

    Raises:
        UsageError: the description does not say enough, or asks for more than there is.
    """
    from yod.pilot.batch.system import Ask

    value, resource = pilot.description.value, pilot.resource
    for key in resource.mandatory:
        if not value(key):
            raise UsageError(f"{pilot.uid}: {resource.label} wants {key!r}")
    cores, nodes, each = value("cores"), value("nodes"), resource.cores_per_node
    if not cores and not nodes:
        raise UsageError(f"{pilot.uid}: 'cores' or 'nodes' is needed to ask {resource.label}")
    if nodes and each and cores > nodes * each:
        raise UsageError(f"{pilot.uid}: {cores} cores are more than {nodes} nodes have")
    if not nodes and each and resource.is_exclusive:
        nodes = -(-cores // each)
    count = nodes or (-(-cores // each) if each else 1)
    return Ask(
        value("job_name") or pilot.uid,
        os.path.join(pilot.directory, JOB_LOG),
        cores,
        nodes and nodes + value("backup_nodes"),
        each,
        -(-value("gpus") // count),
        -(-value("memory") // count),
        value("runtime") + _BEGIN_MINUTES,
        value("queue") or resource.queue,
        value("project") or resource.project,
        resource.options,
        resource.is_exclusive,
        tuple(map(str, value("candidate_hosts"))),
    )


def _held(description: PilotDescription, resource: Resource, ask: Ask) -> list[str]:
    """The options of the allocation within a job: all that the job has, or so many cores."""
    words = ["-sz", str(ask.cores)] if ask.cores else ["--exclusive", "-N", str(ask.nodes)]
    if ask.gpus_per_node:
        words += ["--gpus-per-node", str(ask.gpus_per_node)]
    return [*words, "-time", f"0:{round(description.value('runtime') * _MINUTE_S)}"]


def _environment() -> dict[str, str]:
    """What a job has to have of this process, whose batch system may filter it."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name.startswith("YOD_") and name not in _OF_THIS_HOST
    }
    path = os.pathsep.join((os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)))
    return {**kept, "PATH": path}


def _allocation(description: PilotDescription) -> list[str]:
    """The command that holds an allocation for the agent."""
    value = description.value
    cores, nodes = value("cores"), value("nodes") + value("backup_nodes")
    if not cores and not nodes:
        raise UsageError("pilot: 'cores' or 'nodes' is needed to ask a partition for them")
    words = [sys.executable, "-P", "-m", "partition.yodjob", "alloc", "-quiet"]
    words += ["-sz", str(cores)] if cores else ["--exclusive"]
    words += ["-N", str(nodes)] if nodes else []
    hosts = ",".join(map(str, value("candidate_hosts")))
    words += ["-list", hosts] if hosts else []
    words += ["--gpus-per-node", str(value("gpus"))] if value("gpus") else []
    words += ["-queue", value("queue")] if value("queue") else []
    words += ["-account", value("project")] if value("project") else []
    words += ["-time", f"0:{round(value('runtime') * _MINUTE_S)}"]
    return words


def _inheritable() -> list[int]:
    """Descriptors that an agent would keep open after the application, which may be a lock."""
    found = []
    for fd in map(int, os.listdir("/proc/self/fd")):
        with suppress(OSError):  # it is closed already
            if fd > 2 and os.get_inheritable(fd):
                found.append(fd)
    return found


def _memory_mb() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
