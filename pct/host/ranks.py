"""The ranks of one job on a node: their keepers, their streams, and what they leave behind.

Carries out the actions of the job's machine, and reports what keepers, ranks and the kernel
say.
"""

from __future__ import annotations

import fcntl
import os
import signal
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from native.host.files import Owner
from native.loop.closing import close_all
from native.loop.reactor import Reactor, Timer
from native.loop.slices import Slices
from native.machine import Event, JobEvent
from native.wire import keeper as wire
from pct import events, rare_events
from pct.host import leftovers, streams
from pct.host.keeper import HOLD_LIBRARY, Keeper
from pct.host.spawn.orphans import tree_of
from pct.host.spawn.spawner import Spawner
from pct.host.streams import InputPipe, Inputs, OutputPipe

if TYPE_CHECKING:
    from pct.host.cgroups.job import JobGroup
    from pct.host.mounts import Mounts


class JobRanks:
    """The processes of one job, and their standard streams.

    Args:
        slices: where left-over files are removed.
        handle: takes the events.
        on_client: takes the PMI socket (PMI_FD) of a rank that has been started, and the rank.
        spawner: the parent of the job's keepers.
        make_group: makes a control group, whose first processes are a world's, and that has
            these processors, or all if none is named; None: the job
            has none.
        say: takes a line for the log.
    """

    def __init__(
        self,
        job_id: int,
        owner: Owner,
        reactor: Reactor,
        slices: Slices,
        handle: Callable[[Event], None],
        on_client: Callable[[int, int], None],
        spawner: Spawner,
        make_group: Callable[[int, tuple[int, ...]], JobGroup] | None = None,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._job_id = job_id
        self._owner = owner
        self._reactor = reactor
        self._slices = slices
        self._handle = handle
        self._on_client = on_client
        self._spawner = spawner
        self._make_group = make_group
        self._say = say
        self._group: JobGroup | None = None  # of the keepers that run
        self._groups: list[JobGroup] = []  # all that there have been
        self._killed_count = 0  # by the kernel at the limit of the group, as far as told
        self._keepers: dict[int, Keeper] = {}  # by world
        self._living: set[int] = set()  # worlds whose keepers have not ended
        self._outputs: dict[tuple[int, int], OutputPipe] = {}  # by rank and stream, until its end
        self._inputs = Inputs(self._input_taken, self._input_closed)
        self._shared: dict[int, streams.SharedPipe] = {}  # instead, by rank
        self._paused: set[int] = set()  # streams
        self._map_fd = -1  # the file for the ranks' map
        self._mounts: Mounts | None = None  # there are none
        self._untold: list[JobEvent] = []
        self._spreading: Timer | None = None  # no signal has had to spread
        self._began_unix_s = time.time()

    # -- keepers ----------------------------------------------------------

    def start_keeper(self, spec: wire.KeeperSpec, world: int) -> None:
        """Start the keeper of a world."""
        try:
            if spec.wants_portals:
                flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
                self._map_fd = os.memfd_create("yod-portals", flags)
            if self._make_group is not None and self._group is None:
                self._group = self._make_group(world, spec.cpus)
                self._groups.append(self._group)
                self._killed_count = 0
                spec = replace(spec, denied=self._group.denied)
            if self._group is not None:
                spec = replace(spec, group=os.fsencode(self._group.path))
            self._keepers[world] = Keeper.start(
                spec,
                self._spawner,
                self._reactor,
                partial(self._report, world),
                self._take_streams,
                self._map_fd,
                on_not_started=partial(self._not_started, world),
                hold_library="" if _is_hidden(HOLD_LIBRARY, spec.remote) else HOLD_LIBRARY,
                on_mount=partial(self._take_mount, world),
            )
            self._living.add(world)
        except (OSError, ValueError) as error:
            self._not_started(world, str(error))

    def go(self, world: int) -> None:
        """Let the ranks of a world go."""
        if world in self._keepers:
            self._keepers[world].go()

    def signal(self, signal_number: int) -> None:
        """Signal the ranks of all worlds. Where they have a control group it is frozen."""
        if self._group is not None and signal_number == signal.SIGSTOP:
            self._group.freeze(True)
            return
        if self._group is not None and signal_number in (signal.SIGCONT, signal.SIGTERM):
            self._group.freeze(False)
        if signal_number == signal.SIGKILL:
            self._abort(None)
        for keeper in self._keepers.values():
            keeper.signal(signal_number)

    def let_spread(self, spread_s: float) -> None:
        """For so many seconds do not look at what keepers and ranks say, nor wake up for it."""
        if self._spreading is None:
            self._spreading = self._reactor.timer(self._look_again)
        self._spreading.set(self._reactor.monotonic() + spread_s)
        for keeper in self._keepers.values():
            keeper.rest(True)
        self._look_at_outputs()

    def _look_again(self) -> None:
        for keeper in list(self._keepers.values()):  # one that is lost leaves
            keeper.rest(False)
        self._look_at_outputs()

    def let_die(self, ranks: Iterable[int]) -> None:
        """Let signals end ranks that are held before their end."""
        for keeper in self._keepers.values():  # one that has not the rank does nothing
            for rank in ranks:
                keeper.let_die(rank)

    def end(self, world: int | None) -> None:
        """Kill the processes of a world; None: of all."""
        self._abort(world)
        for number, keeper in self._keepers.items():
            if world in (None, number):
                keeper.end()

    def kill_keepers(self) -> None:
        """Kill the keepers themselves."""
        self._abort(None)
        for keeper in self._keepers.values():
            keeper.kill()

    def left(self) -> set[int]:
        """Processes that are there: keepers with all below them, and what lost ones have left."""
        trees = (tree_of(each.unix_pid) for each in self._keepers.values() if each.unix_pid)
        return set(self._spawner.unkilled()).union(*trees)

    def give_map(self, key: bytes, uid: int, ids: bytes) -> None:
        """Fill the file that ranks which use Portals have, and let nobody change it."""
        from native.wire import rank

        fd, self._map_fd = self._map_fd, -1
        data = rank.encode(self._job_id, uid, key, ids)
        try:
            while data:
                data = data[os.write(fd, data) :]
            seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
        except OSError as error:
            self._handle(events.MapNotGiven(self._job_id, str(error)))
        finally:
            os.close(fd)

    def kill_orphans(self, world: int) -> None:
        """Kill what the lost keeper of a world has left behind."""
        killed = events.OrphansKilled(self._job_id, world)
        self._spawner.kill_orphans(partial(self._handle, killed))

    def _not_started(self, world: int, why: str) -> None:
        self._keepers.pop(world, None)
        self._living.discard(world)
        text = f"the keeper could not be started: {why}"
        self._handle(events.KeeperNotStarted(self._job_id, world, text))

    def _report(self, world: int, report: wire.Report) -> None:
        if isinstance(report, wire.DevicesOpen):
            self._say(f"GPUs of others are open to it: {report.reason}")
            return
        if isinstance(report, wire.RankEnded):
            self._look_at_memory(report)
        if isinstance(report, wire.KeeperEmpty | wire.KeeperLost):
            self._living.discard(world)
        if isinstance(report, wire.KeeperLost):
            del self._keepers[world]  # nobody is there who would take a command
        self._happened(events.KeeperReported(self._job_id, report, world))

    def _look_at_memory(self, ended: wire.RankEnded) -> None:
        """Whether the kernel has killed a rank at the limit of the job's group."""
        if self._group is None or ended.was_signalled or ended.wait_status & 0x7F != signal.SIGKILL:
            return
        count = self._group.out_of_memory_count
        if count > self._killed_count:
            self._killed_count = count
            self._happened(events.OutOfMemory(self._job_id, ended.rank))

    # -- streams ----------------------------------------------------------

    def pause(self, stream: int, is_paused: bool) -> None:
        """Stop or resume reading a stream of the ranks."""
        self._paused = self._paused | {stream} if is_paused else self._paused - {stream}
        self._look_at_outputs()

    def _look_at_outputs(self) -> None:
        is_spreading = self._spreading is not None and self._spreading.at is not None
        for (_, stream), pipe in self._outputs.items():
            pipe.pause(is_spreading or stream in self._paused)

    def hold_output(self, rank: int | None, is_on: bool) -> None:
        """Read what the pipes of a rank, or of all, have now, and no more; or read all again.

        What is read is told at once.
        """
        for (number, _), pipe in list(self._outputs.items()):
            if not is_on:
                pipe.let_go()
            elif rank in (None, number):
                pipe.hold()
        self._tell()

    def finish_output(self) -> None:
        """Read what there is, and no more."""
        for pipe in self._outputs.values():
            pipe.finish()

    def write_input(self, data: bytes) -> None:
        """Give the ranks that read it their input; empty data closes it."""
        self._inputs.write(data)

    def give_line(self, rank: int, data: bytes) -> None:
        """Give a rank some of the input that all share; empty data ends its own."""
        if rank not in self._shared:
            fd = self._inputs.hand_over(rank)
            on_wanted = partial(self._line_wanted, rank)
            self._shared[rank] = streams.SharedPipe(self._reactor, fd, on_wanted)
        self._shared[rank].give(data)

    def resize(self, rows: int, columns: int) -> None:
        """The terminal of a rank has another size."""
        if 0 in self._keepers:  # a spawned rank has none
            self._keepers[0].resize(rows, columns)

    def _take_streams(
        self, rank: int, stdin: int | None, stdout: int, stderr: int, client: int | None
    ) -> None:
        for stream, fd in ((1, stdout), (2, stderr)):
            pipe = OutputPipe(self._reactor, fd, partial(self._read, rank, stream))
            if stream in self._paused:
                pipe.pause(True)
            self._outputs[rank, stream] = pipe
        if stdin is not None:
            self._inputs.add(rank, partial(InputPipe, self._reactor, stdin))
        if client is not None:
            self._on_client(client, rank)

    def _read(self, rank: int, stream: int, data: bytes) -> None:
        if not data:
            del self._outputs[rank, stream]
        self._happened(events.OutputRead(self._job_id, rank, stream, data))
        if data:
            self._tell()  # the stream is paused before more is read

    def _input_taken(self, count_bytes: int) -> None:
        self._handle(events.InputTaken(self._job_id, count_bytes))

    def _input_closed(self) -> None:
        self._handle(events.InputClosed(self._job_id))

    def _line_wanted(self, rank: int, unread: bytes, is_closed: bool) -> None:
        self._handle(rare_events.LineWanted(self._job_id, rank, unread, is_closed))

    # -- remote files ------------------------------------------------------

    def answer_remote(self, mount: int, frame: bytes) -> None:
        """Give the kernel a reply."""
        if self._mounts is not None:
            self._mounts.answer(mount, frame)

    def pause_remote(self, is_on: bool) -> None:
        """Take no further requests for remote files, or go on."""
        if self._mounts is not None:
            self._mounts.pause(is_on)

    def _take_mount(self, world: int, directory: int, fd: int) -> None:
        if self._mounts is None:
            from pct.host.mounts import Mounts  # few jobs have any

            self._mounts = Mounts(self._job_id, self._reactor, self._handle)
        self._mounts.add(world, directory, fd)

    def _abort(self, world: int | None) -> None:
        """Ranks that are killed wait for no remote file; None: those of all worlds."""
        if self._mounts is not None:
            self._mounts.close(world)

    # -- what has happened ------------------------------------------------

    def _happened(self, event: JobEvent) -> None:
        """Tell it with all else that happens in this turn of the loop: much ends together."""
        if not self._untold:
            self._reactor.call_soon(self._tell)
        self._untold.append(event)

    def _tell(self) -> None:
        untold, self._untold = self._untold, []
        if untold:
            self._handle(events.Several(self._job_id, tuple(untold)))

    # -- the end ----------------------------------------------------------

    def remove_leftovers(self, world: int) -> None:
        """Remove shared memory of the job's ranks that no process has open.

        Behind the last keeper the control group goes first, with what is alive in it.
        """
        if self._group is not None and not self._living:
            group, self._group = self._group, None
            again = partial(self.remove_leftovers, world)
            group.end(self._reactor, self._slices, self._job_id, again)
            return

        def done(names: list[str]) -> None:
            self._handle(events.LeftoversRemoved(self._job_id, world, tuple(names)))

        work = leftovers.remove(self._owner.uid, self._began_unix_s)
        self._slices.start(self._job_id, work, done)

    def close(self) -> None:
        """Hang up on every keeper, which then ends its ranks; give everything back."""
        self._untold.clear()
        if self._spreading is not None:
            self._spreading.close()
        calls: list[Callable[[], None]] = [self._inputs.close]
        calls += [pipe.close for pipe in self._shared.values()]
        calls += [output.close for output in self._outputs.values()]
        if self._map_fd >= 0:
            calls.append(partial(os.close, self._map_fd))
        calls += [group.close for group in self._groups]
        calls += [keeper.close for keeper in self._keepers.values()]
        calls.append(partial(self._abort, None))
        self._keepers, self._outputs = {}, {}
        close_all(calls)


def _is_hidden(path: str, directories: tuple[bytes, ...]) -> bool:
    """A file of the node is below a directory that shows others to the ranks."""
    return any(path.startswith(f"{os.fsdecode(each)}/") for each in directories)
