"""Sandboxes of tasks on nodes that do not see the session's directory: they are carried.

What lies in a task's sandbox is packed, and goes to all nodes of the task as the standard input of
a step with a rank on each: down the tree of that step, with its credit, so memory stays bounded.
What the task has left there comes back as the output of a step on each node. Both ends compare
digests. What the task connects to (:mod:`yod.pilot.agent.doors`) goes before.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from native.loop.aside import Aside
from native.loop.reactor import Reactor
from yod.guest.front import Given, Source
from yod.pilot.agent.doors import Doors
from yod.pilot.agent.steps import Steps
from yod.pilot.files.archive import MODULE, pack_file, unpack_file
from yod.pilot.function.together import outputs_of
from yod.pilot.model.description import TaskDescription
from yod.pilot.work.place import Outcome, Work

_DIRECTORY = "carried"  # in the pilot's sandbox
_READ_BYTES = 1 << 16

Then = Callable[[str], None]


class FileSource(Source):
    """Input that is in a file, read as there is room for it."""

    def __init__(self, reactor: Reactor, path: str) -> None:
        super().__init__(reactor, self._wanted)
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._left = memoryview(b"")

    def _wanted(self) -> None:
        while not self.is_over and self._fd >= 0:
            if not self._left:
                self._left = memoryview(os.read(self._fd, _READ_BYTES))
            if not self._left:
                self.end()
                break
            count = self.give(self._left)
            self._left = self._left[count:]
            if not count:
                return
        if self.is_over and self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Carrying:
    """Carries sandboxes for one agent.

    Args:
        nodes: names of the pilot's nodes; numbers: index -> the partition's number.

    Attributes:
        apart: indices of the nodes that do not see the session's directory.
    """

    def __init__(
        self,
        reactor: Reactor,
        steps: Callable[[], Steps],
        sandbox: str,
        nodes: list[str],
        numbers: dict[int, int],
    ) -> None:
        self.apart: set[int] = set()
        self._reactor = reactor
        self._steps = steps
        self._directory = os.path.join(sandbox, _DIRECTORY)
        self._nodes = nodes
        self._numbers = numbers
        self._aside: Aside | None = None
        self._canceled: set[str] = set()
        self._bringing: set[str] = set()  # tasks whose sandboxes are on their way
        self._doors = Doors(self._put)
        self._puts = 0

    def nodes_of(self, work: Work) -> list[int]:
        """The nodes of a task that are apart."""
        return sorted({slot.node for slot in work.slots} & self.apart)

    def bring(self, work: Work, doors: list[str], then: Then) -> None:
        """Carry to the nodes of a task what it needs; ``then`` takes why that failed, or nothing.

        Args:
            doors: sockets that it connects to.
        """
        nodes, uid = self.nodes_of(work), work.uid
        self._bringing.add(uid)

        def told(failure: str) -> None:
            self._bringing.discard(uid)
            if uid in self._canceled:
                self._canceled.discard(uid)
                failure = "it was not wanted any more"
            then(failure)

        def opened(failure: str) -> None:
            if failure or uid in self._canceled:
                told(failure and f"its way to the agent: {failure}")
                return
            failure = _with_class(work)
            if failure or (_is_of_worker(work) and _is_empty(work)):
                told(failure)
            else:
                self._bring_sandbox(work, nodes, told)

        self._doors.bring(doors, nodes, opened)

    def _bring_sandbox(self, work: Work, nodes: list[int], then: Then) -> None:
        name = f"{work.uid}.in"
        path = os.path.join(self._directory, name)

        def packed(result: tuple[str, str]) -> None:
            digest, failure = result
            if failure or work.uid in self._canceled:
                over(Outcome(reason=failure))
                return
            words = [sys.executable, "-P", "-m", MODULE, "put", work.sandbox, digest]
            self._step(name, words, nodes, over, source=FileSource(self._reactor, path))

        def over(outcome: Outcome) -> None:
            with suppress(OSError):
                os.unlink(path)
            then(self._failure("its input", nodes, outcome))

        self._beside().give(partial(pack_file, work.sandbox, path, outputs_of(work)), packed)

    def cancel(self, uid: str) -> None:
        """A task is not wanted any more whose sandbox is being brought."""
        if uid in self._bringing:
            self._canceled.add(uid)
            self._steps().signal(f"{uid}.in", signal.SIGTERM)

    def fetch(self, work: Work, then: Then) -> None:
        """Carry a sandbox back, and remove it there unless others share it."""
        left = self.nodes_of(work)
        keeps = bool(TaskDescription(work.description).value("sandbox"))
        failures: list[str] = []

        def one(node: int) -> None:
            path = os.path.join(self._directory, f"{work.uid}.out.{node}")
            words = [sys.executable, "-P", "-m", MODULE, "get", work.sandbox]
            words += [] if keeps else ["remove"]

            def came(outcome: Outcome) -> None:
                failure = self._failure("its output", [node], outcome)
                if failure:
                    with suppress(OSError):
                        os.unlink(path)
                    done(failure)
                    return
                digest = outcome.stderr.strip()
                unpacking = partial(unpack_file, path, work.sandbox, digest)
                self._beside().give(unpacking, unpacked)

            def unpacked(failure: str) -> None:
                done(failure and f"its output of {self._nodes[node]}: {failure}")

            self._step(f"{work.uid}.out.{node}", words, [node], came, output=path)

        def done(failure: str) -> None:
            failures.append(failure)
            if left:
                one(left.pop(0))
            else:
                then(next((each for each in failures if each), ""))

        one(left.pop(0))

    def close(self) -> None:
        """Carry nothing more."""
        if self._aside is not None:
            self._aside.close(0.0)
            self._aside = None

    def _put(self, words: list[str], data: bytes, nodes: list[int], then: Then) -> None:
        self._puts += 1

        def over(outcome: Outcome) -> None:
            then(self._failure(words[-1], nodes, outcome))

        self._step(f"door.{self._puts}", words, nodes, over, source=Given(self._reactor, data))

    def _beside(self) -> Aside:
        if self._aside is None:
            self._aside = Aside(self._reactor, "carrying")
        return self._aside

    def _step(
        self,
        name: str,
        words: list[str],
        nodes: list[int],
        then: Callable[[Outcome], None],
        *,
        output: str = os.devnull,
        source: Source | None = None,
    ) -> None:
        numbers = [self._numbers[node] for node in nodes]
        self._steps().start(
            name,
            words,
            len(nodes),
            {},
            "/",
            output,
            os.devnull,
            lambda at: None,
            then,
            nodes=numbers,
            source=source,
        )

    def _failure(self, what: str, nodes: list[int], outcome: Outcome) -> str:
        if not outcome.failure:
            return ""
        last = (outcome.stderr.strip().splitlines() or [outcome.failure])[-1]
        names = ", ".join(self._nodes[node] for node in nodes)
        return f"{what} on {names}: {last}"


def _is_of_worker(work: Work) -> bool:
    """It is a call of one rank, whose worker makes its sandbox."""
    value = TaskDescription(work.description).value
    return bool(work.payload) and value("ranks") == 1 and not value("use_mpi")


def _is_empty(work: Work) -> bool:
    try:
        return not set(os.listdir(work.sandbox)) - set(outputs_of(work))
    except FileNotFoundError:
        return True
    except OSError:  # to pack it says so
        return False


def _with_class(work: Work) -> str:
    """Put the file of a raptor's class into the sandbox; why that cannot be done, or nothing."""
    path = TaskDescription(work.description).value("raptor_file") or ""
    own = os.path.join(work.sandbox, os.path.basename(path))
    if not os.path.isabs(path) or os.path.exists(own) or not os.path.exists(path):
        return ""  # it is there, or is staged
    try:
        os.makedirs(work.sandbox, exist_ok=True)
        shutil.copyfile(path, own)
    except OSError as error:
        return f"raptor_file {path}: {error.filename or own}: {error.strerror}"
    return ""
