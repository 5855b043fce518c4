"""A script that CRIU may write down: how it begins or comes back, and the saver beside it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial

from msgspec import Struct, json

from native import allocated
from native.allocated import KEY_VARIABLE, PARTITION_VARIABLE
from native.errors import PartitionError
from native.host import programs, stdio
from native.host.backends.criu import find
from native.host.marks import outputs
from native.host.process import program_behind
from native.loop.reactor import Reactor
from native.machine import Action, Event
from native.text import shown
from native.waitstatus import exit_status
from native.wire.alloc import NodeSpec
from native.wire.batch import SCRIPT_STEP
from partition.batch.begun import Begun
from partition.batch.given import Work
from partition.batch.saving import (
    Answer,
    Asked,
    ContinueScript,
    EndScript,
    SaverEnded,
    Saving,
    SavingState,
    SendSignal,
    StartSaver,
)
from partition.batch.script import Script
from partition.broker.command import NOT_EXECUTABLE, CannotStartError
from partition.checkpoint import criu, digests, files, finding, obstacles
from partition.checkpoint.files import Recipe, RecipeMember
from yod.plan.checkpoint_options import DIRECTORY

BACKEND = "criu-script"  # in a manifest; it is no checkpoint of ranks
ENDED_STATUS = 75  # exit status of a script behind its checkpoint
_LOCK_BYTES = 8  # partition/savers/script.py
_SAID_BYTES = 4096

Told = Callable[[bool, str, str], None]


class Container(Struct, frozen=True):
    """Where a script is written down.

    Attributes:
        directory: of its checkpoints.
        recipe: by which they are known, and are this job's.
        restart: what it comes back from; empty: it begins.
    """

    directory: str
    recipe: Recipe
    restart: str


def prepared(work: Work) -> Container:
    """Make the directory, and find what the script comes back from. Standard output is the job's.

    Raises:
        YodError: scripts cannot be written down here, or the last checkpoint is not as it was.
    """
    program = find(os.environ)
    if why := criu.why_not(program):
        raise PartitionError(f"{DIRECTORY}: {why}")
    step_id = f"{work.grant.job_id}.{SCRIPT_STEP}"
    directory = allocated.saved_directory(os.fsdecode(work.task.checkpoints), step_id)
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        lock = os.path.join(directory, allocated.LOCK)
        fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.truncate(fd, _LOCK_BYTES)  # it keeps the count that it has
        os.close(fd)
    except OSError as error:
        raise PartitionError(f"{DIRECTORY} {shown(directory)}: {error.strerror}") from None
    words = tuple(shown(os.fsdecode(word)) for word in work.task.words)
    recipe = Recipe(
        job=work.given.name,
        directory=shown(os.fsdecode(work.task.directory)),
        members=(RecipeMember(words, NodeSpec(1)),),
        environment=digests.of_record(work.given.task),
        mpi="",
        yod=str(files.VERSION),
        backend=BACKEND,
        tool=criu.version(program),
        batch_job=str(work.grant.job_id),
    )
    restart = ""
    if work.grant.attempt:
        restart = _newest(directory, recipe)
        _cut_output(restart)
    return Container(directory, recipe, restart)


def _newest(directory: str, recipe: Recipe) -> str:
    """The last checkpoint of this job, with its files compared; empty: it has none."""
    for found in finding.all_in(directory):
        if found.manifest is None:
            continue
        kept = found.manifest.recipe
        if (kept.batch_job, kept.environment) == (recipe.batch_job, recipe.environment):
            finding.check(found.path, found.manifest)
            return os.path.join(found.path, files.rank_directory(0))
    return ""


def _cut_output(restart: str) -> None:
    """Cut the job's output back to a checkpoint, or to nothing.

    Raises:
        PartitionError: it is not what the script had written.
    """
    if not restart:
        path = outputs.path_of(1)
        if outputs.appended(1) and not os.path.exists(outputs.beside(path)):
            os.ftruncate(1, 0)
        return
    for mark in outputs.read(restart).files:
        if not outputs.cut(mark):
            raise PartitionError(
                f"{shown(mark.path)} is not the output that the script had at its checkpoint "
                f"{shown(os.path.dirname(restart))}"
            )


class SavedScript(Script):
    """The script below `yod-init`, and its saver.

    Args:
        container: where it is written down.
        told: takes whether it was a trial, the path of a checkpoint, and why there is none.
    """

    def __init__(
        self,
        work: Work,
        begun: Begun,
        reactor: Reactor,
        on_end: Callable[[int], None],
        container: Container,
        told: Told,
    ) -> None:
        super().__init__(work.task, begun, reactor, on_end)
        self._container = container
        self._job_id = str(work.grant.job_id)
        self._told = told
        self._saving = Saving()
        self._is_suspended = self._is_saved = self._goes_on_behind = False

    def start(self, job_id: str, variables: Mapping[str, str]) -> None:
        """Say where yods find the allocation now, and let the script begin or come back.

        Raises:
            CannotStartError: where the allocation is cannot be said.
        """
        path = os.path.join(self._container.directory, allocated.PLACE)
        text = f"{variables[PARTITION_VARIABLE]}\n{variables[KEY_VARIABLE]}\n"
        try:
            with open(f"{path}.new", "w", encoding="utf-8", errors="surrogateescape") as file:
                file.write(text)
            os.rename(f"{path}.new", path)
        except OSError as error:
            raise CannotStartError(f"{shown(path)}: {error.strerror}", NOT_EXECUTABLE) from None
        super().start(job_id, variables)

    def checkpoint(self, ends: bool, is_trial: bool) -> None:
        """A command asks for a checkpoint, or whether one could be made."""
        if self._is_suspended or not self._unix_pid:
            why = "it is suspended" if self._is_suspended else "its script does not run"
            self._told(is_trial, "", why)
        else:
            self._handle(Asked(ends, is_trial))

    def signal_alone(self, number: int) -> None:
        """Send a signal to its first process. SIGTERM only if it cannot be written down instead."""
        if number == signal.SIGTERM and self._unix_pid and not self._is_suspended:
            self._handle(Asked(ends=True, signal_number=number))
        else:
            self._send(number)

    def suspend(self, is_on: bool) -> None:
        """Stop its group, with the yods in it; or continue it.

        A saver may have stopped it as well: it goes on when that has ended, since what it does
        behind its checkpoint would be done again.
        """
        self._is_suspended = is_on
        self._goes_on_behind = not is_on and self._saving.state is SavingState.SAVING
        if not self._goes_on_behind:
            super().suspend(is_on)

    def _send(self, number: int) -> None:
        super().signal_alone(number)

    @property
    def _first(self) -> int:
        program = program_behind(self._unix_pid) if self._unix_pid else 0
        return program if program > 0 else self._unix_pid

    @property
    def _word(self) -> bytes:
        restart = self._container.restart
        return b"r" + os.fsencode(restart) if restart else b"g"

    def _ended(self, status: int) -> None:
        super()._ended(ENDED_STATUS << 8 if self._is_saved else status)

    def _handle(self, event: Event) -> None:
        for action in self._saving.handle(event):
            self._perform(action)
        if isinstance(event, SaverEnded) and self._goes_on_behind:
            self._goes_on_behind = False
            self._continue()

    def _perform(self, action: Action) -> None:
        match action:
            case StartSaver(is_trial):
                self._start_saver(is_trial)
            case Answer(is_trial, path, trouble):
                if not is_trial:
                    text = f"no checkpoint of the script: {trouble}" if trouble else path
                    stdio.say(f"yodjob: job {self._job_id}: {text}")
                self._told(is_trial, path, trouble)
            case EndScript():
                if self._unix_pid:
                    self._is_saved = True
                    os.kill(self._unix_pid, signal.SIGKILL)
            case ContinueScript():
                self._continue()
            case SendSignal(number):
                self._send(number)
            case _:
                raise AssertionError(f"no case for {action!r}")

    def _continue(self) -> None:
        if not self._unix_pid:
            return
        for unix_pid in obstacles.below(self._unix_pid):
            with suppress(ProcessLookupError):
                os.kill(unix_pid, signal.SIGCONT)
        if self._is_suspended:
            super().suspend(True)

    def _start_saver(self, is_trial: bool) -> None:
        """Start it; what it reads and says are files in memory."""
        what = "look-script" if is_trial else "script"
        words = [
            *programs.command_line("yodjob-cold"),
            *("saver", what, str(self._unix_pid), self._job_id, self._container.directory),
        ]
        given, said, trouble = (os.memfd_create(f"yod-saver-{n}") for n in range(3))
        with open(given, "wb", closefd=False) as file:
            file.write(json.encode(self._container.recipe) + b"\0")
        os.lseek(given, 0, os.SEEK_SET)
        actions = [(os.POSIX_SPAWN_DUP2, fd, n) for n, fd in enumerate((given, said, trouble))]
        try:
            child = os.posix_spawn(
                words[0],
                words,
                os.environ,
                file_actions=actions,
                setpgroup=0,  # criu is of its group
                setsigmask=(),
                setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),
            )
        except OSError as error:
            os.close(said)
            os.close(trouble)
            text = f"{shown(words[0])}: {error.strerror}"
            self._reactor.call_soon(lambda: self._handle(SaverEnded("", text)))
        else:
            ended = partial(self._saver_ended, child, said, trouble)
            self._reactor.on_child(child, ended)
        os.close(given)

    def _saver_ended(self, group: int, said: int, trouble: int, status: int) -> None:
        with suppress(ProcessLookupError):  # else criu would stop the script when we let it go on
            os.killpg(group, signal.SIGKILL)
        path = _read(said).partition(" ")[2].removesuffix("\n")
        lines = _read(trouble).strip().splitlines()
        why = ""
        if status:
            why = lines[-1] if lines else f"its saver ended with {exit_status(status)}"
        self._handle(SaverEnded("" if why else path, why))


def _read(fd: int) -> str:
    with open(fd, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _SAID_BYTES))
        return os.fsdecode(file.read())
