"""The table of a launch in yod, PROTOCOL.md 5.3: what a message does in each phase.

Each cell is tried on the real machine, and compared with the table in the code.
"""

from __future__ import annotations

import pytest

from native.errors import Refusal
from native.ids import PortalId
from native.machine import Event
from native.wire import alloc, group, io, load, pmi
from native.wire.base import Message
from tests.unit.yod import launch_of
from tests.wire.states import ALONE, EXCESS, ask, cells_of, table_after
from yod.launch.machine import TABLE
from yod.launch.phases import Phase

LAUNCH_TABLE = "### 5.3 A launch in yod"
WORKERS = pmi.Spawn(pmi.Process(0, 0), (pmi.SpawnCommand(b"./worker", (), 2),), ())
BOTH = launch_of.completions(0, 1)
LAUNCH_ROWS: dict[str, tuple[PortalId, Message]] = {
    "`alloc.grant`": (launch_of.BEBOPD, launch_of.grant(2)),
    "`alloc.refused`": (launch_of.BEBOPD, alloc.Refused(Refusal.BUSY, "no")),
    "`alloc.queued`": (launch_of.BEBOPD, alloc.Queued(1, "no")),
    "`alloc.released`": (launch_of.BEBOPD, alloc.Released(launch_of.JOB_ID)),
    "`alloc.give_way`": (launch_of.BEBOPD, alloc.GiveWay(launch_of.JOB_ID, "for others")),
    "`checkpoint.write_down`": (
        launch_of.BEBOPD,
        group.WriteDown(launch_of.JOB_ID, "for others", gives_way=True),
    ),
    "`load.vote`": (
        launch_of.ROOT,
        load.Vote(launch_of.JOB_ID, 2, (0,), (), launch_of.slowest()),
    ),
    "`load.loaded`": (launch_of.ROOT, load.Loaded(launch_of.JOB_ID, launch_of.slowest())),
    "`load.held`": (launch_of.ROOT, launch_of.held(0, 1)),
    "`load.late`": (
        launch_of.ROOT,
        load.Late(launch_of.JOB_ID, (load.LateNode(21, "n21"),)),
    ),
    "`load.failure`": (launch_of.ROOT, launch_of.failure()),
    "`load.failure` NODE_LOST": (
        launch_of.ROOT,
        launch_of.failure(load.FailureKind.NODE_LOST),
    ),
    "`load.failure` KEEPER_LOST": (
        launch_of.ROOT,
        launch_of.failure(load.FailureKind.KEEPER_LOST),
    ),
    "`load.completions`": (launch_of.ROOT, BOTH),
    "`load.released`": (launch_of.ROOT, launch_of.released(0, 1)),
    "`io.output`": (launch_of.ROOT, launch_of.output(1, b"x")),
    "`io.lines`": (launch_of.ROOT, io.Lines(launch_of.JOB_ID, 1, ((0, 1, 0),), b"x\n")),
    "`io.input_credit`": (launch_of.ROOT, io.InputCredit(launch_of.JOB_ID, 1)),
    "`io.line_asked`": (launch_of.ROOT, io.LineAsked(launch_of.JOB_ID, 0, 0)),
    "`io.remote_request`": (launch_of.ROOT, io.RemoteRequest(launch_of.JOB_ID, 0, 0, 0, b"")),
    "`pmi.ask`, a spawn": (launch_of.ROOT, ask(1, 0, WORKERS)),
    "`pmi.ask`, another question": (launch_of.ROOT, ask(1, 0)),
    "`pmi.alone`": (launch_of.ROOT, ALONE),
    "`pmi.excess`": (launch_of.ROOT, EXCESS),
    "`checkpoint.done`": (launch_of.ROOT, group.Done(launch_of.JOB_ID, 1, 9)),
    "`group.seen`": (launch_of.ROOT, group.Seen(launch_of.JOB_ID, 0, 20, b"")),
    "`group.times`": (
        launch_of.ROOT,
        group.Times(launch_of.JOB_ID, 10, (group.NodeTimes(20, 0),)),
    ),
    "`group.still`": (launch_of.ROOT, group.Still(launch_of.JOB_ID, 20, 60.0)),
    "anything else": (launch_of.ROOT, load.Go(launch_of.JOB_ID)),
}


def test_every_row_and_phase_of_the_launchs_table_is_tried():
    columns, rows = table_after(LAUNCH_TABLE)
    assert [row[0] for row in rows] == list(LAUNCH_ROWS)
    assert [Phase[name] for name in columns[1:]] == list(Phase)[:-1]


@pytest.mark.parametrize(("label", "column", "cell"), list(cells_of(LAUNCH_TABLE, 1)))
def test_a_message_to_a_launch_does_what_the_table_says(label, column, cell):
    yod = launch_of.Yod(2, remote=(b"/data",), shares_input=True, tells_times=True).to(
        Phase[column]
    )
    source, message = LAUNCH_ROWS[label[0]]
    assert yod.phase is Phase[column]
    completed = len(yod.report.completions)
    actions = yod.receive(message, source)
    match cell:
        case "late":
            assert actions == []
            assert yod.phase is Phase[column]
        case "back":
            assert actions == [launch_of.to_bebopd(alloc.Release(launch_of.JOB_ID))]
            assert yod.phase is Phase[column]
        case "yes":
            has_advanced = yod.phase is not Phase[column]
            assert actions or has_advanced or len(yod.report.completions) >= completed
        case _:
            pytest.fail(f"{cell!r} is no effect")


def _taken_by_the_code(phase: Phase) -> set[type]:
    """The messages and events in the row of a phase in the launch's table."""
    return set(TABLE[phase])


def test_every_message_in_the_launchs_table_is_on_the_page():
    on_page = {type(message) for _, message in LAUNCH_ROWS.values()}
    in_code = set().union(*map(_taken_by_the_code, Phase))
    assert {kind for kind in in_code if issubclass(kind, Message)} <= on_page


@pytest.mark.parametrize(("label", "column", "cell"), list(cells_of(LAUNCH_TABLE, 1)))
def test_a_message_that_has_an_effect_on_the_page_is_in_the_launchs_table(label, column, cell):
    """One that is late may be there, too: what it says is noted."""
    _, message = LAUNCH_ROWS[label[0]]
    assert cell == "late" or type(message) in _taken_by_the_code(Phase[column])


def test_every_event_has_a_method_in_every_phase_of_a_launch():
    """Without one it is a bug of yod, and the job ends."""
    in_code = {phase: _taken_by_the_code(phase) for phase in Phase}
    known = {kind for kinds in in_code.values() for kind in kinds if issubclass(kind, Event)}
    assert {phase: known - kinds for phase, kinds in in_code.items() if known - kinds} == {}


def test_a_launch_that_is_over_takes_nothing():
    yod = launch_of.Yod(2).to(Phase.DONE)
    assert yod.phase is Phase.DONE
    for source, message in LAUNCH_ROWS.values():
        assert yod.receive(message, source) == []
