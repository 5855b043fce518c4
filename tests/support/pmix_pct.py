"""A stand-in for the PCTs of a job: PMIx servers on one host, as on several nodes.

It plays the tree between the servers (fences, other nodes' data, names, spawning) and
starts real ranks with the environment that the servers give. A node is a server.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from native.loop.slices import run
from native.wire.pmi import KeyValue, SpawnCommand
from native.wire.pmix import (
    AbortJob,
    Added,
    AddWorld,
    Answer,
    Begin,
    End,
    Ended,
    Enter,
    FenceDone,
    GetModex,
    GetRemote,
    GetTable,
    Joined,
    Left,
    LookupNames,
    ModexData,
    NamedProcess,
    PublishNames,
    Ready,
    SpawnPrograms,
    Table,
    Unavailable,
    UnpublishNames,
)
from pct.host.pmix_command import make_directory, remove_directory
from tests.support.pmix_node import Node
from tests.support.pmix_world import World
from tests.support.wait import LIMIT_S

EXE_NOT_FOUND = -190  # PMIX_ERR_JOB_EXE_NOT_FOUND


class Pct:
    """All the nodes of a job.

    Attributes:
        servers: their names.
        directories: of their files.
        joined, left: in the order they were told.
        aborts: every AbortJob.
        messages: all that servers have said.
    """

    def __init__(
        self,
        directory: Path,
        libraries: Sequence[str],
        node_count: int = 1,
        is_only: bool = True,
        kills_on_failure: bool = True,
        settings: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.directory = directory
        self.name = f"{os.getpid()}-{os.urandom(4).hex()}"
        self.nodes: list[Node] = []
        self.worlds: dict[str, World] = {}
        self.joined: list[NamedProcess] = []
        self.left: list[NamedProcess] = []
        self.aborts: list[AbortJob] = []
        self.messages: list[tuple[str, Any]] = []
        self.errors = directory / "server-errors"
        self.times: dict[str, float] = {}
        self._kills_on_failure = kills_on_failure
        self._fences: dict[Any, dict[int, Enter]] = {}
        self._remote: dict[tuple[int, int], tuple[Node, int]] = {}
        self._serial = 0
        self._names: dict[bytes, tuple[bytes, bool]] = {}
        self._lookups: list[tuple[Node, LookupNames]] = []
        self._environment: Mapping[str, str] = {}
        self._answers: list[Added] | None = None
        self.times["begin"] = time.monotonic()
        self.servers = [f"{self.name}-{number}" for number in range(node_count)]
        owner = (os.getuid(), os.getgid())
        self.directories = [
            make_directory(str(directory), *owner, server) for server in self.servers
        ]
        for number, server in enumerate(self.servers):
            begin = Begin(
                tuple(os.fsencode(path) for path in libraries),
                is_only,
                server,
                f"node{number}",
                *owner,
                self.directories[number],
            )
            self.nodes.append(Node(f"node{number}", begin, self.errors, settings))

    # -- what a test does -------------------------------------------------

    def __enter__(self) -> Pct:
        return self

    def __exit__(self, *exception: object) -> None:
        self._kill(signal.SIGKILL)
        for world in self.worlds.values():
            for process in world.running.values():
                process.wait()
        for node in self.nodes:
            node.socket.close()
            node.process.wait(LIMIT_S)
        for path in self.directories:
            run(remove_directory(path, os.getuid()))

    def wait_ready(self) -> None:
        """Return when every server has answered Begin."""
        self._until(lambda: all(node.answer for node in self.nodes))
        self.times["ready"] = time.monotonic()

    def start(
        self,
        arguments: Sequence[str],
        node_of: Sequence[int],
        environment: Mapping[str, str],
    ) -> World:
        """Start the first world; returns when its ranks run."""
        self._environment = environment
        program, *others = (os.fsencode(word) for word in arguments)
        one = SpawnCommand(program, tuple(others), 1)
        self.wait_ready()
        world = self._add_world(node_of, [one] * len(node_of), None)
        self._until(lambda: bool(world.running))
        return world

    def wait(self) -> None:
        """Return when every rank of every world has ended."""
        self._until(lambda: not any(world.running for world in self.worlds.values()))

    def wait_for(self, *processes: NamedProcess) -> None:
        """Return when these have joined."""
        self._until(lambda: set(processes) <= set(self.joined))

    def end(self) -> list[int]:
        """Let the servers end, and take what they still say; their exit statuses."""
        for node in self.nodes:
            node.send(End())
            while messages := node.receive():
                self._handle_all(node, messages)
        statuses = [node.process.wait(LIMIT_S) for node in self.nodes]
        for path in self.directories:
            run(remove_directory(path, os.getuid()))
        return statuses

    def left_over(self) -> list[bytes]:
        """Directories of servers that are still there."""
        return [path for path in self.directories if os.path.lexists(path)]

    def output(self, world: World, rank: int) -> str:
        """What a rank has written."""
        return self._output(world, rank).read_text()

    def add(self, world: AddWorld) -> Added:
        """Register a world of which no rank is started, at the first node."""
        answers: list[Added] = []
        self._answers = answers
        self.nodes[0].send(world)
        self._until(lambda: bool(answers))
        self._answers = None
        return answers[0]

    # -- the loop ---------------------------------------------------------

    def _until(self, is_done: Any) -> None:
        deadline = time.monotonic() + LIMIT_S
        while not is_done():
            poll = select.poll()
            by_fd: dict[int, Any] = {node.socket.fileno(): node for node in self.nodes}
            for world in self.worlds.values():
                by_fd.update({fd: (world, rank) for rank, fd in world.pidfds.items()})
            for fd in by_fd:
                poll.register(fd, select.POLLIN)
            left_s = deadline - time.monotonic()
            ready = poll.poll(max(0.0, left_s * 1000))
            if not ready:
                self._complain()
            for fd, _ in ready:
                what = by_fd[fd]
                if isinstance(what, Node):
                    messages = what.receive()
                    assert messages, f"the server of {what.name} has ended"
                    self._handle_all(what, messages)
                else:
                    self._rank_ended(*what)

    def _complain(self) -> None:
        outputs = {
            (world.nspace, rank): self.output(world, rank)[-2000:]
            for world in self.worlds.values()
            for rank in range(len(world.node_of))
        }
        raise AssertionError(
            f"nothing for {LIMIT_S:g} s; said: {self.messages}; fences: {self._fences}; "
            f"ranks: {outputs}; servers: {self.errors.read_text()}"
        )

    def _kill(self, number: int) -> None:
        for world in self.worlds.values():
            for process in world.running.values():
                process.send_signal(number)

    def _rank_ended(self, world: World, rank: int) -> None:
        os.close(world.pidfds.pop(rank))
        process = world.running.pop(rank)
        status = world.statuses[rank] = process.wait()
        for number, node in enumerate(self.nodes):
            wait_status = -status if status < 0 else status << 8
            is_local = world.node_of[rank] == number
            who = NamedProcess(world.nspace, rank)
            node.send(Ended(who, wait_status, status != 0, is_local))
        if status and self._kills_on_failure:
            self._kill(signal.SIGTERM)

    # -- the tree ---------------------------------------------------------

    def _handle_all(self, node: Node, messages: list[Any]) -> None:
        for message in messages:
            self.messages.append((node.name, message))
            self._handle(node, message)

    def _handle(self, node: Node, message: Any) -> None:
        match message:
            case Ready() | Unavailable():
                node.answer = message
            case Added() if self._answers is not None:
                self._answers.append(message)
            case Added():
                self._added(node, message)
            case Joined(process):
                self.joined.append(process)
            case Left(process):
                self.left.append(process)
            case Enter():
                self._enter(node, message)
            case GetRemote(serial, process):
                self._serial += 1
                owner = self.worlds[process.nspace].node_of[process.rank]
                self._remote[owner, self._serial] = (node, serial)
                self.nodes[owner].send(GetModex(self._serial, process))
            case ModexData(serial, status, data):
                key = (self.nodes.index(node), serial)
                if key in self._remote:
                    asker, its = self._remote.pop(key)
                    asker.send(Answer(its, status, (KeyValue(b"", data),)))
            case PublishNames(serial, _, pairs, is_read_once):
                self._names.update({pair.key: (pair.value, is_read_once) for pair in pairs})
                node.send(Answer(serial, 0, ()))
                self._answer_lookups()
            case LookupNames():
                self._lookups.append((node, message))
                self._answer_lookups()
            case UnpublishNames(serial, keys):
                for name in keys:
                    self._names.pop(name, None)
                node.send(Answer(serial, 0, ()))
            case SpawnPrograms(serial, process, commands):
                if not all(os.access(command.program, os.X_OK) for command in commands):
                    node.send(Answer(serial, EXE_NOT_FOUND, ()))
                    return
                places = [one for one in commands for _ in range(one.count)]
                applications = [n for n, one in enumerate(commands) for _ in range(one.count)]
                world = self._add_world(
                    [i % len(self.nodes) for i in range(len(places))],
                    places,
                    process,
                    applications,
                )
                world.asked_by = (node, serial)
            case GetTable(serial, nspaces):
                number = self.nodes.index(node)
                rows = [row for name in nspaces for row in self.worlds[name].rows_at(number)]
                node.send(Table(serial, tuple(rows)))
            case AbortJob():
                self.aborts.append(message)  # its own end will end the others
                node.send(Answer(message.serial, 0, ()))
            case _:
                raise AssertionError(f"unexpected: {message}")

    def _answer_lookups(self) -> None:
        for node, lookup in list(self._lookups):
            found = [key for key in lookup.keys if key in self._names]
            if lookup.is_waiting and len(found) < len(lookup.keys):
                continue
            self._lookups.remove((node, lookup))
            pairs = tuple(KeyValue(key, self._names[key][0]) for key in found)
            for key in found:
                if self._names[key][1]:
                    del self._names[key]
            node.send(Answer(lookup.serial, 0, pairs))

    def _enter(self, node: Node, message: Enter) -> None:
        key = (message.kind, message.processes)
        inside = self._fences.setdefault(key, {})
        assert self.nodes.index(node) not in inside, f"twice in {key}"
        inside[self.nodes.index(node)] = message
        wanted = set()
        for process in message.processes:
            node_of = self.worlds[process.nspace].node_of
            wanted |= set(node_of) if process.rank < 0 else {node_of[process.rank]}
        if set(inside) != wanted:
            return
        del self._fences[key]
        data = b"".join(inside[number].data for number in sorted(inside))
        for number, entered in inside.items():
            self.nodes[number].send(FenceDone(entered.serial, 0, data))

    # -- worlds -----------------------------------------------------------

    def _add_world(
        self,
        node_of: Sequence[int],
        commands: Sequence[SpawnCommand],
        parent: NamedProcess | None,
        applications: Sequence[int] = (),
    ) -> World:
        first_rank = sum(len(world.node_of) for world in self.worlds.values())
        nspace = f"{self.name}.{len(self.worlds)}"
        world = self.worlds[nspace] = World(nspace, node_of, commands, first_rank)
        used = sorted(set(node_of))
        for number, node in enumerate(self.nodes):
            local = tuple(rank for rank, at in enumerate(node_of) if at == number)
            node.send(
                AddWorld(
                    serial=len(self.worlds) - 1,
                    nspace=nspace,
                    job_id=self.name,
                    nodes=tuple(f"node{i}" for i in used),
                    node_of=tuple(used.index(at) for at in node_of),
                    application_of=tuple(applications) or (0,) * len(node_of),
                    local_ranks=local,
                    universe_size=16,
                    first_rank=first_rank,
                    parent=parent,
                )
            )
        return world

    def _added(self, node: Node, message: Added) -> None:
        if message.status:
            raise AssertionError(f"{node.name}: {message.text}")
        world = list(self.worlds.values())[message.serial]
        number = self.nodes.index(node)
        local = [rank for rank, at in enumerate(world.node_of) if at == number]
        world.environments.update(zip(local, message.environments, strict=True))
        world.added += 1
        if world.added < len(self.nodes):
            return
        self.times.setdefault("added", time.monotonic())
        for rank, command_line in enumerate(world.commands):
            process = world.running[rank] = self._start_rank(world, rank, command_line)
            world.pidfds[rank] = os.pidfd_open(process.pid)
            world.unix_pids[rank] = process.pid
        if world.asked_by is not None:
            asker, serial = world.asked_by
            asker.send(Answer(serial, 0, (), world.nspace))

    def _start_rank(
        self, world: World, rank: int, command_line: SpawnCommand
    ) -> subprocess.Popen[bytes]:
        environment = {os.fsencode(k): os.fsencode(v) for k, v in self._environment.items()}
        for entry in (*command_line.environment, *world.environments[rank]):
            name, _, value = entry.partition(b"=")
            environment[name] = value
        if len(self.nodes) > 1:
            # The libraries name these files by host: nodes that share one would share them.
            backing = self.directory / f"shm-{world.node_of[rank]}"
            backing.mkdir(exist_ok=True)
            for btl in ("vader", "sm"):
                environment[os.fsencode(f"OMPI_MCA_btl_{btl}_backing_directory")] = bytes(backing)
        with self._output(world, rank).open("wb") as output:
            return subprocess.Popen(
                [command_line.program, *command_line.arguments],
                env=environment,
                cwd=command_line.directory or None,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def _output(self, world: World, rank: int) -> Path:
        return self.directory / f"output-{world.nspace}-{rank}"


def statuses(pct: Pct) -> list[list[int]]:
    """Exit statuses of each world's ranks."""
    return [[status for _, status in sorted(w.statuses.items())] for w in pct.worlds.values()]
