"""One client of a launch server: what each event does in each state, and that it has one end."""

from __future__ import annotations

import random
import signal

import pytest

from native.errors import IllegalTransition, PeerProtocolError
from native.limits import Limits
from native.machine import Action, DeadlineReached, Event
from native.wire import client, client_codec
from partition.session import events
from partition.session.machine import ENDING_TEXT, LEAVE_S, UNKNOWN_TEXT, Session, State
from tests.unit.yod.launch_of import plan
from yod.launch.report import NEVER_STARTED
from yod.plan.prepared import Prepared, Records

LIMITS = Limits(connect_s=5.0, prepare_s=10.0, press_s=0.5, liveness_s=2.0)
BEGIN = 100.0
REQUEST = client.Request(0o22, client.Stdio(0), (), 1, 0, ())
OF_YODJOB = client.Request(0o22, client.Stdio.YODJOB, (), 2, 0, ())
TO_ONE_FILE = client.Request(0, client.Stdio.YODJOB | client.Stdio.SAME_OUTPUT, (), 2, 0, ())
PREPARED = Prepared(plan(1), b"", LIMITS, "embedded", None, "", Records())
THEIRS = Prepared(plan(1), b"", Limits(liveness_s=3.0), "embedded", None, "", Records())

ASKED = events.Asked(REQUEST)
ASKED_TO_SUBMIT = events.Asked(OF_YODJOB)
READY = events.Ready(PREPARED)
REFUSED = events.Refused("no such program", 127)
NOT_PREPARED = events.NotPrepared("a helper has ended")
SAID = events.Said(b"yodjob: warning\n", b"17\n", 0)
ENDED = events.LaunchEnded(3, False)
FAILED = events.LaunchFailed("broken")
GONE = events.ClientGone()
ENDS = events.ServerEnds()
PRESS = events.Signalled(signal.SIGTERM)
USR1 = events.Signalled(signal.SIGUSR1)
LATE = DeadlineReached()
LATE_ONES = (READY, REFUSED, NOT_PREPARED, SAID, ENDED, FAILED)

CANCEL, HANG_UP = events.CancelPreparing(), events.HangUp()
ABANDON, ABANDON_SOON = events.Abandon(), events.Abandon(is_soon=True)
PATHS: dict[State, list[Event]] = {
    State.GREETED: [],
    State.PREPARING: [ASKED],
    State.SUBMITTING: [ASKED_TO_SUBMIT],
    State.RUNNING: [ASKED, READY],
    State.LEAVING: [ASKED, READY, ENDED],
    State.OVER: [GONE],
}


def cold(reason: str) -> events.Tell:
    return events.Tell(client.Cold(reason))


def leave(status: int, drops: bool = False) -> events.Tell:
    return events.Tell(client.Exit(status, drops))


def line(text: str, command: str = "yod") -> events.Tell:
    return events.Tell(client.Output(2, f"{command}: {text}\n".encode()))


def output(stream: int, data: bytes) -> events.Tell:
    return events.Tell(client.Output(stream, data))


def session(state: State) -> Session:
    """A session that has come to a state."""
    machine = Session(LIMITS, BEGIN)
    for event in PATHS[state]:
        machine.handle(event, BEGIN)
    assert machine.state is state
    return machine


G, P, S, R, L, X = State
TABLE: list[tuple[State, Event, list[Action], State]] = [
    (G, ASKED, [events.Prepare(REQUEST)], P),
    (G, NOT_PREPARED, [cold("a helper has ended")], L),
    (G, PRESS, [leave(-signal.SIGTERM)], L),
    (G, USR1, [], G),
    (G, LATE, [HANG_UP], X),
    (G, FAILED, [HANG_UP], X),
    (G, GONE, [HANG_UP], X),
    (G, ENDS, [cold("the launch server ends")], L),
    (P, READY, [events.Begin(PREPARED)], R),
    (P, events.Ready(THEIRS), [events.Tell(client.Times(1000, 3000)), events.Begin(THEIRS)], R),
    (P, REFUSED, [line("no such program"), leave(127)], L),
    (P, NOT_PREPARED, [cold("a helper has ended")], L),
    (P, events.NotPrepared("nothing", False), [events.Tell(client.Cold("nothing", False))], L),
    (P, PRESS, [CANCEL, leave(-signal.SIGTERM)], L),
    (P, USR1, [], P),
    (P, LATE, [CANCEL, cold("the launch was not prepared in 10 s")], L),
    (P, FAILED, [CANCEL, cold("broken")], L),
    (P, GONE, [CANCEL, HANG_UP], X),
    (P, ENDS, [CANCEL, cold("the launch server ends")], L),
    (G, ASKED_TO_SUBMIT, [events.Submit(OF_YODJOB)], S),
    (S, SAID, [output(2, SAID.errors), output(1, b"17\n"), leave(0)], L),
    (S, events.Said(b"", b"", 2), [leave(2)], L),
    (S, NOT_PREPARED, [cold("a helper has ended")], L),
    (S, events.NotPrepared("nothing", False), [events.Tell(client.Cold("nothing", False))], L),
    (S, PRESS, [CANCEL, leave(-signal.SIGTERM)], L),
    (S, USR1, [], S),
    (S, FAILED, [CANCEL, line(f"broken; {UNKNOWN_TEXT}", "yodjob"), leave(1)], L),
    (S, GONE, [CANCEL, HANG_UP], X),
    (
        *(S, ENDS),
        [CANCEL, line(f"the launch server ends; {UNKNOWN_TEXT}", "yodjob"), leave(1)],
        L,
    ),
    (R, PRESS, [events.PassSignal(signal.SIGTERM)], R),
    (R, USR1, [events.PassSignal(signal.SIGUSR1)], R),
    (R, ENDED, [leave(3), ABANDON_SOON], L),
    (R, events.LaunchEnded(-2, True), [leave(-2, True), ABANDON_SOON], L),
    (R, FAILED, [ABANDON, line("broken"), leave(NEVER_STARTED)], L),
    (R, GONE, [ABANDON, HANG_UP], X),
    (R, ENDS, [ABANDON, line(ENDING_TEXT), leave(NEVER_STARTED)], L),
    (L, GONE, [HANG_UP], X),
    (L, LATE, [HANG_UP], X),
    (L, ASKED, [], L),  # on its way when the client was told
    *((L, event, [], L) for event in (*LATE_ONES, PRESS, ENDS)),
    *((X, event, [], X) for event in (*LATE_ONES, PRESS, ENDS)),
    (X, GONE, [], X),
    (X, LATE, [], X),
]


@pytest.mark.parametrize(
    ("state", "event", "actions", "then"),
    TABLE,
    ids=[f"{state.value}-{type(event).__name__}-{n}" for n, (state, event, *_) in enumerate(TABLE)],
)
def test_each_event_does_what_the_table_says(
    state: State, event: Event, actions: list[Action], then: State
):
    machine = session(state)
    assert machine.handle(event, BEGIN) == actions
    assert machine.state is then
    machine.check()


@pytest.mark.parametrize("state", State)
def test_every_other_event_is_refused(state: State):
    known = {type(event) for in_state, event, *_ in TABLE if in_state is state}
    for event in (ASKED, *LATE_ONES, PRESS, GONE, ENDS, LATE):
        if type(event) not in known:
            wanted = PeerProtocolError if event is ASKED else IllegalTransition
            with pytest.raises(wanted):
                session(state).handle(event, BEGIN)


@pytest.mark.parametrize("text", ["x" * 100_000, "é" * 100_000, "\udcff" * 100_000])
def test_a_text_that_is_too_long_for_a_packet_is_cut_and_the_client_has_its_end(text: str):
    told, end = session(State.PREPARING).handle(events.Refused(text, 2), BEGIN)
    assert isinstance(told, events.Tell) and end == leave(2)
    assert isinstance(told.message, client.Output)
    assert client_codec.decode_from_server(client_codec.encode(told.message)) == told.message
    assert told.message.data.startswith(b"yod: ") and told.message.data.endswith("…\n".encode())


def test_a_line_that_may_come_beyond_the_window_of_output_is_short():
    _, told, end = session(State.RUNNING).handle(events.LaunchFailed("é" * 1000), BEGIN)
    assert isinstance(told, events.Tell) and end == leave(NEVER_STARTED)
    assert isinstance(told.message, client.Output)
    assert 500 < len(told.message.data) <= client.OWN_LINE_MAX_BYTES
    told.message.data.decode()  # no character is torn


def test_a_client_that_asks_nothing_and_a_preparation_that_does_not_end_have_their_time():
    assert session(State.GREETED).deadline() == BEGIN + LIMITS.connect_s
    assert session(State.PREPARING).deadline() == BEGIN + LIMITS.prepare_s
    for state in (State.SUBMITTING, State.RUNNING, State.LEAVING, State.OVER):
        assert session(state).deadline() is None


def test_both_streams_of_a_submission_keep_their_order_where_they_are_one_file():
    machine = Session(LIMITS, BEGIN)
    machine.handle(events.Asked(TO_ONE_FILE), BEGIN)
    assert machine.handle(SAID, BEGIN) == [output(1, SAID.errors), output(1, b"17\n"), leave(0)]


@pytest.mark.parametrize("state", [G, P, S, R, L])
def test_a_server_that_ends_waits_for_a_client_to_leave_but_not_for_ever(state: State):
    machine = session(state)
    machine.handle(ENDS, BEGIN)
    assert machine.deadline() == BEGIN + LEAVE_S
    machine.handle(ENDS, BEGIN + 1)  # told again
    assert machine.deadline() == BEGIN + LEAVE_S


@pytest.mark.parametrize("seed", range(100))
def test_a_thousand_clients_in_any_order_are_told_one_end_each_and_nothing_runs_twice(seed: int):
    rng = random.Random(seed)
    for _ in range(10):
        one_life(rng)


def one_life(rng: random.Random) -> None:
    """Any events that may come, until the client has gone."""
    machine = Session(LIMITS, BEGIN)
    done: list[Action] = []
    asked = rng.choice((ASKED, ASKED_TO_SUBMIT))
    may_come: list[Event] = [PRESS, USR1, GONE, ENDS, LATE, asked]
    while machine.state is not State.OVER:
        event = rng.choice(may_come)
        if (event is asked and machine.state is not State.GREETED) or (
            event is LATE and machine.deadline() is None
        ):
            continue
        actions = machine.handle(event, BEGIN)
        machine.check()
        done += actions
        for action in actions:
            if isinstance(action, events.Prepare):
                may_come += [READY, REFUSED, NOT_PREPARED, FAILED]
            elif isinstance(action, events.Submit):
                may_come += [SAID, NOT_PREPARED, FAILED]
            elif isinstance(action, events.Begin):
                may_come = [PRESS, USR1, GONE, ENDS, ENDED, FAILED]
    kinds = [type(action) for action in done]
    told = [type(action.message) for action in done if isinstance(action, events.Tell)]
    ends = told.count(client.Cold) + told.count(client.Exit)
    begun = kinds.count(events.Begin)
    assert kinds[-1] is events.HangUp and kinds.count(events.HangUp) == 1
    assert ends <= 1 and begun <= 1
    assert kinds.count(events.Abandon) == begun
    assert not (begun and client.Cold in told)
    if events.PassSignal in kinds:
        assert kinds.index(events.Begin) < kinds.index(events.PassSignal)


def test_what_a_command_says_is_told_in_packets():
    session = Session(Limits(), 0.0)
    session.handle(ASKED_TO_SUBMIT, 0.0)
    text = b"x" * (client.DATA_MAX + 1)
    told = session.handle(events.Said(b"", text, 0), 0.0)
    data = [each.message.data for each in told[:-1]]
    assert [len(each) for each in data] == [client.DATA_MAX, 1] and b"".join(data) == text
