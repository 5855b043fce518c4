"""The tables of a job on a node and of a node, PROTOCOL.md 5.1 and 5.2: what messages do there.

Each cell is tried on the real machine, and compared with the table in the code.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from native.errors import PeerProtocolError
from native.fuse.frames import reply
from native.ids import PortalId
from native.machine import Event, PeerGone
from native.wire import codec, group, io, load, pmi
from native.wire.base import Message
from pct.job.machine import Job
from pct.job.progress import JobState, Progress
from pct.job.table import FROM_ANYBODY, MESSAGES
from pct.node import FROM_BEBOPD, OF_NO_JOB
from pct.tree.group import Sender
from tests.unit.pct import job_of
from tests.wire import protocol, shares
from tests.wire.states import ALONE, EXCESS, ID, TIMES, ask, cells_of, table_after

# -- a job on a node -------------------------------------------------------

JOB_TABLE = "### 5.1 A job on a node"


def _job(state: JobState, size: int, place: int, **fields) -> Job:
    """A job in a state: alone, root of three, or a leaf of three; place 3 of 7 when 4 wide."""
    parent = job_of.YOD if place == 0 else job_of.pct((place - 1) // 2)
    message = job_of.load_message(size, place, **{"input_ranks": ((0, 0),), **fields})
    job = Job(message, job_of.credential(size), parent, job_of.BEGIN)
    job.begin(job_of.BEGIN)
    children = [each for each in (2 * place + 1, 2 * place + 2) if each < size]
    lacks = state is JobState.LOADING

    def give(*events):
        for event in events:
            job.handle(event, job_of.BEGIN)

    give(job_of.OPENED)
    if state is not JobState.FORMING:
        give(job_of.LACKING if lacks else job_of.PRESENT)
        give(*(job_of.received(job_of.pct(each), job_of.vote(each)) for each in children))
    if state in (JobState.HELD, JobState.RUNNING, JobState.ENDING):
        for each in children:
            piece = load.Held(ID, (each,), (3000 + each,), (), job_of.slowest(each), True)
            give(job_of.received(job_of.pct(each), piece))
        give(job_of.started(place), job_of.held(place))
    if state in (JobState.RUNNING, JobState.ENDING):
        if message.mpi.has_portals:
            give(job_of.received(parent, load.Ports(ID, 0, (7,) * size)))
        give(job_of.received(parent, load.Go(ID)))
    if state is JobState.ENDING:
        give(job_of.received(parent, load.AllDone(ID)))
    assert job.state is state
    return job


def _alone(state: JobState) -> Job:
    return _job(state, 1, 0)


def _root(state: JobState) -> Job:
    return _job(state, 3, 0)


def _merging(state: JobState) -> Job:
    """A root of three that folds lines."""
    return _job(state, 3, 0, merge_s=0.05)


def _fed(state: JobState) -> Job:
    """A root of three that has passed on input."""
    job = _job(state, 3, 0, input_ranks=((0, 2),))
    job.handle(job_of.received(PARENT, io.Input(ID, b"x")), job_of.BEGIN)
    return job


def _leaf(state: JobState) -> Job:
    return _job(state, 3, 1)


def _listening(state: JobState) -> Job:
    """A leaf of three whose ranks listen for Portals."""
    return _job(state, 3, 1, mpi=job_of.PORTALS)


def _orphan(state: JobState) -> Job:
    """A leaf of seven that has lost its parent and asked the root."""
    job = _job(state, 7, 3)
    job.handle(PeerGone(job_of.pct(1), "gone"), job_of.BEGIN)
    return job


def _voting(state: JobState) -> Job:
    """A root one of whose children has not spoken yet, as far as the state allows."""
    if state is JobState.LOADING:
        job = _job(JobState.FORMING, 3, 0)
        job.handle(job_of.PRESENT, job_of.BEGIN)
        for place in (1, 2):
            vote = job_of.vote(place, 0)
            job.handle(job_of.received(job_of.pct(place), vote), job_of.BEGIN)
        assert job.state is JobState.LOADING
        return job
    return _root(state)


def _middle(state: JobState) -> Job:
    """Place 1 of seven."""
    return _job(state, 7, 1)


def _having(*events: Event) -> Callable[[JobState], Job]:
    """Place 1 of seven, to which this has happened already."""

    def make(state: JobState) -> Job:
        job = _middle(state)
        for event in events:
            job.handle(event, job_of.BEGIN)
        return job

    return make


PARENT, CHILD = job_of.YOD, job_of.pct(1)
FIRST_OUTPUT = io.Output(ID, 1, 1, 0, b"x")
FIRST_LINES = io.Lines(ID, 1, ((1, 1, 0),), b"x\n")
OF_JOBS = ("load", "group", "io", "pmi", "checkpoint")
QUESTIONS = [cls.__struct_config__.tag for cls in pmi.Question.__subclasses__()]
SPAWN = job_of.spawn(1, 3)
BEGIN = group.Begin(ID, 10, 60.0, 2, b"{}")


def _saving(state: JobState) -> Job:
    """Alone, and it makes a checkpoint, if it can in this state."""
    job = _job(state, 1, 0, checkpoints=group.Checkpoints(b"/scratch", "c"))
    if state is JobState.RUNNING:
        job.handle(job_of.received(PARENT, BEGIN), job_of.BEGIN)
    return job


REPLY = io.RemoteReply(ID, 0, 0, reply(6))


def _remote(state: JobState) -> Job:
    """A root of three whose ranks have files of yod's."""
    return _job(state, 3, 0, remote=group.Remote((b"/data",), 1 << 20))


LINE = io.Line(ID, 0, 0, b"x\n")


def _sharing(state: JobState) -> Job:
    """A root of three whose ranks share yod's input."""
    return _job(state, 3, 0, shares_input=True)


def _traced(state: JobState) -> Job:
    """A root of three whose nodes tell their times."""
    return _job(state, 3, 0, tells_times=True)


def _fence_in(number: int) -> pmi.FenceIn:
    return pmi.FenceIn(ID, job_of.fence(number=number), (), True)


def _fence_out(number: int) -> pmi.FenceOut:
    return pmi.FenceOut(ID, job_of.fence(number=number), (), True)


def _reply(target: int) -> pmi.Reply:
    return pmi.Reply(ID, target, 1, 0, ())


JOB_ROWS: dict[tuple[str, str], tuple[Callable[[JobState], Job], PortalId, Message]] = {
    ("parent", "`load.use_shared`"): (_alone, PARENT, load.UseShared(ID, 0, b"/x")),
    ("parent", "`load.ports` (the next piece)"): (
        _listening,
        job_of.pct(0),
        load.Ports(ID, 0, (7, 8)),
    ),
    ("parent", "`load.ports` (another piece)"): (
        _listening,
        job_of.pct(0),
        load.Ports(ID, 1, (7, 8)),
    ),
    ("parent", "`load.ports` (to the root)"): (_root, PARENT, load.Ports(ID, 0, (7,))),
    ("parent", "`load.go`"): (_alone, PARENT, load.Go(ID)),
    ("parent", "`load.signal`"): (_alone, PARENT, load.Signal(ID, 10)),
    ("parent", "`load.all_done`"): (_alone, PARENT, load.AllDone(ID)),
    ("parent", "`io.output_credit`"): (_alone, PARENT, io.OutputCredit(ID, 1, 1)),
    ("parent", "`io.input`"): (_alone, PARENT, io.Input(ID, b"x")),
    ("parent", "`io.resize`"): (_alone, PARENT, io.Resize(ID, group.Window(24, 80))),
    ("parent", "`pmi.fence_out` (present number)"): (
        _leaf,
        job_of.pct(0),
        _fence_out(0),
    ),
    ("parent", "`pmi.fence_out` (another number)"): (
        _leaf,
        job_of.pct(0),
        _fence_out(1),
    ),
    ("parent", "`pmi.fence_out` (to the root)"): (_alone, PARENT, _fence_out(0)),
    ("parent", "`pmi.lost`"): (_leaf, job_of.pct(0), pmi.Lost(ID, (0,), 9)),
    ("parent", "`pmi.lost` (to the root)"): (_root, PARENT, pmi.Lost(ID, (1,), 9)),
    ("parent", "`pmi.ask` (target here)"): (_middle, job_of.pct(0), ask(0, 1)),
    ("parent", "`pmi.ask` (target below)"): (_middle, job_of.pct(0), ask(2, 3)),
    ("parent", "`pmi.ask` (target elsewhere)"): (_middle, job_of.pct(0), ask(0, 2)),
    ("parent", "`pmi.ask` (source below)"): (_middle, job_of.pct(0), ask(4, 3)),
    ("parent", "`pmi.ask` (not for this target)"): (
        _middle,
        job_of.pct(0),
        ask(0, 1, pmi.Unpublish((b"k",))),
    ),
    ("parent", "`pmi.ask` (to the root)"): (_root, PARENT, ask(1, 0)),
    ("parent", "`pmi.reply` (target below)"): (_middle, job_of.pct(0), _reply(3)),
    ("parent", "`pmi.reply` (not waited for)"): (_middle, job_of.pct(0), _reply(1)),
    ("parent", "`load.spawn`"): (_middle, job_of.pct(0), SPAWN),
    ("parent", "`load.spawn` (a world that exists)"): (
        _having(job_of.received(job_of.pct(0), SPAWN)),
        job_of.pct(0),
        SPAWN,
    ),
    ("parent", "`load.spawn` (contradicts itself)"): (
        _middle,
        job_of.pct(0),
        job_of.replaced(SPAWN, environments=()),
    ),
    ("parent", "`checkpoint.begin`"): (_alone, PARENT, BEGIN),
    ("parent", "`checkpoint.begin` (while one is made)"): (_saving, PARENT, BEGIN),
    ("parent", "`checkpoint.go_on`"): (_alone, PARENT, group.GoOn(ID)),
    ("parent", "`group.look`"): (_alone, PARENT, group.Look(ID, 1)),
    ("parent", "`io.line` (this node's)"): (_sharing, PARENT, LINE),
    ("parent", "`io.line` (for a node below)"): (
        _sharing,
        PARENT,
        job_of.replaced(LINE, place=2),
    ),
    ("parent", "`io.line` (no shared input)"): (_alone, PARENT, LINE),
    ("parent", "`io.remote_reply` (this node's)"): (_remote, PARENT, REPLY),
    ("parent", "`io.remote_reply` (for a node below)"): (
        _remote,
        PARENT,
        job_of.replaced(REPLY, place=2),
    ),
    ("parent", "`io.remote_reply` (no such files)"): (_alone, PARENT, REPLY),
    ("parent", "`group.adopted`"): (_leaf, job_of.pct(0), group.Adopted(ID)),
    ("child", "`load.vote`"): (_root, CHILD, job_of.vote(1)),
    ("child", "`load.loaded`"): (_voting, CHILD, load.Loaded(ID, job_of.slowest(1))),
    ("child", "`load.held`"): (
        _voting,
        CHILD,
        load.Held(ID, (1,), (3001,), (), job_of.slowest(1), True),
    ),
    ("child", "`load.late`"): (
        _root,
        CHILD,
        load.Late(ID, (load.LateNode(21, "n21"),)),
    ),
    ("child", "`load.failure`"): (
        _root,
        CHILD,
        load.Failure(ID, load.FailureKind.OBJECT, "loading", 21, "n21", -1, "lost"),
    ),
    ("child", "`load.completions`"): (_root, CHILD, load.Completions(ID, ())),
    ("child", "`load.released`"): (_root, CHILD, load.Released.of(ID, (21,))),
    ("child", "`io.output`"): (_root, CHILD, FIRST_OUTPUT),
    ("child", "`io.lines` (lines are folded)"): (_merging, CHILD, FIRST_LINES),
    ("child", "`io.lines` (none are)"): (_root, CHILD, FIRST_LINES),
    ("child", "`io.input_credit`"): (_fed, CHILD, io.InputCredit(ID, 1)),
    ("child", "`io.line_asked`"): (_root, CHILD, io.LineAsked(ID, 1, 1)),
    ("child", "`io.remote_request`"): (_root, CHILD, io.RemoteRequest(ID, 1, 0, 0, b"")),
    ("child", "`pmi.fence_in` (present number)"): (_root, CHILD, _fence_in(0)),
    ("child", "`pmi.fence_in` (another number)"): (_root, CHILD, _fence_in(9)),
    ("child", "`pmi.ask` (target here)"): (_root, CHILD, ask(1, 0)),
    ("child", "`pmi.ask` (target elsewhere)"): (_middle, job_of.pct(3), ask(3, 2)),
    ("child", "`pmi.ask` (source not in its subtree)"): (_root, CHILD, ask(2, 0)),
    ("child", "`pmi.ask` (not for this target)"): (
        _middle,
        job_of.pct(3),
        ask(3, 1, pmi.Publish((), False)),
    ),
    ("child", "`pmi.ask` (to a place that is not)"): (_root, CHILD, ask(1, 3)),
    ("child", "`pmi.reply` (target elsewhere)"): (_middle, job_of.pct(3), _reply(2)),
    ("child", "`pmi.reply` (not waited for)"): (_root, CHILD, _reply(0)),
    ("child", "`pmi.alone` (the first)"): (_root, CHILD, ALONE),
    ("child", "`pmi.alone` (another)"): (
        _having(job_of.received(job_of.pct(4), ALONE)),
        job_of.pct(3),
        ALONE,
    ),
    ("child", "`pmi.excess` (the first)"): (_root, CHILD, EXCESS),
    ("child", "`pmi.excess` (another)"): (
        _having(job_of.received(job_of.pct(4), EXCESS)),
        job_of.pct(3),
        EXCESS,
    ),
    ("child", "`load.spawned`"): (_root, CHILD, load.Spawned(ID, 1, 1)),
    ("child", "`checkpoint.done`"): (_root, CHILD, group.Done(ID, 1, 9)),
    ("child", "`group.seen`"): (_root, CHILD, group.Seen(ID, 1, 21, b"")),
    ("child", "`group.still`"): (_root, CHILD, group.Still(ID, 21, 60.0)),
    ("child", "`group.times`"): (_traced, CHILD, TIMES),
    ("child", "`group.times` (not asked for)"): (_root, CHILD, TIMES),
    ("place below", "`group.orphan`"): (
        lambda state: _job(state, 7, 0),
        job_of.pct(3),
        group.Orphan(ID, 3),
    ),
    ("adopter", "`group.adopted`"): (_orphan, job_of.pct(0), group.Adopted(ID)),
    **shares.rows(_job),
    ("anybody", "`load.reset`"): (_root, job_of.STRANGER, load.Reset(ID)),
    ("another node of the job", "anything else"): (_leaf, job_of.pct(2), load.Go(ID)),
    ("anybody", "anything else"): (_root, job_of.STRANGER, load.Go(ID)),
}


def test_every_row_of_the_jobs_table_is_tried():
    _, rows = table_after(JOB_TABLE)
    assert [tuple(row[:2]) for row in rows] == list(JOB_ROWS)


@pytest.mark.parametrize(("label", "column", "cell"), list(cells_of(JOB_TABLE, 2)))
def test_a_message_to_a_job_does_what_the_table_says(label, column, cell):
    make, source, message = JOB_ROWS[label]
    job = make(JobState[column])
    event = job_of.received(source, message)
    assert cell in ("yes", "late", "no")
    if cell == "no":
        with pytest.raises(PeerProtocolError):
            job.handle(event, job_of.BEGIN + 1)
    else:
        actions = job.handle(event, job_of.BEGIN + 1)
        assert cell == "yes" or actions == []
    if cell != "yes":
        assert job.state is JobState[column]


@pytest.mark.parametrize("state", [state for state in JobState if state is not JobState.RELEASED])
def test_what_a_parent_or_child_may_not_send_is_refused(state):
    """Rows that the table has not are violations, from a parent and from a child."""
    from_parent = {"load.use_shared", "load.go", "load.signal", "load.all_done"}
    from_parent |= {"io.output_credit", "io.input", "io.resize", "pmi.fence_out", "group.adopted"}
    from_parent |= {"load.spawn", "pmi.reply", "checkpoint.begin", "group.look"}
    from_parent |= {"checkpoint.go_on"}
    from_child = {"load.vote", "load.loaded", "load.held", "load.failure", "load.completions"}
    from_child |= {"load.late", "load.released", "load.spawned", "io.output", "pmi.fence_in"}
    from_child |= {
        "pmi.reply",
        "pmi.alone",
        "pmi.excess",
        "checkpoint.done",
        "group.seen",
        "group.still",
        "io.input_credit",
        "io.line_asked",
        "io.remote_request",
        *(f"pmi.ask.{name}" for name in QUESTIONS),
    }
    anybody = {"load.reset", "group.orphan", "load.load"}
    for name in protocol.VECTORS:
        if name.partition(".")[0] not in OF_JOBS or name in anybody:
            continue
        message = codec.decode(protocol.read_vector(name))
        for source, allowed in ((PARENT, from_parent), (CHILD, from_child)):
            if name not in allowed:
                with pytest.raises(PeerProtocolError):
                    _root(state).handle(job_of.received(source, message), job_of.BEGIN)


LATE = (Progress.late, Progress.late_below, Progress.pass_down)
IN_CODE = {  # rows of the page that name a sender of the code's table
    "parent": Sender.PARENT,
    "child": Sender.CHILD,
    "adopter": Sender.ADOPTER,
}


def _row_in_code(label: tuple[str, str]) -> tuple[Sender, Message, str]:
    """Sender, kind, and the condition on what the message says; empty: there is none."""
    kind, _, condition = label[1].partition(" (")
    sender = IN_CODE[label[0]]
    if condition == "to the root)":
        sender, condition = Sender.YOD, ""
    elif condition == "to another)":
        condition = ""
    return sender, codec.decode(protocol.read_vector(_vector(kind.strip("`")))), condition


def _vector(kind: str) -> str:
    return "pmi.ask.modex" if kind == "pmi.ask" else kind


def _verdict(sender: Sender, state: JobState, message: Message) -> str:
    method = MESSAGES[sender][state].get(type(message))
    if method is None:
        return "no"
    return "late" if method in LATE else "yes"


@pytest.mark.parametrize(
    ("label", "column", "cell"),
    [each for each in cells_of(JOB_TABLE, 2) if each[0][0] in IN_CODE],
)
def test_the_jobs_table_in_the_code_is_the_one_on_the_page(label, column, cell):
    """Where a condition is named, the table may say yes and the method refuse."""
    sender, message, condition = _row_in_code(label)
    verdict = _verdict(sender, JobState[column], message)
    assert verdict == cell or (condition and verdict == "yes")


def test_every_message_in_the_jobs_table_is_on_the_page():
    _, rows = table_after(JOB_TABLE)
    on_page = {(row[0], row[1].partition(" (")[0].strip("`")) for row in rows}
    for name, sender in {**IN_CODE, "parent of the root": Sender.YOD}.items():
        for rules in MESSAGES[sender].values():
            for kind in rules:
                row = (name.removesuffix(" of the root"), kind.__struct_config__.tag)
                assert row in on_page
    for kind in FROM_ANYBODY:
        tag = kind.__struct_config__.tag
        assert {("anybody", tag), ("place below", tag)} & on_page


def test_what_the_root_takes_from_yod_and_others_from_their_parents_differs_where_the_page_says():
    _, rows = table_after(JOB_TABLE)
    told_apart = {row[1].partition(" (")[0].strip("`") for row in rows if "(to " in row[1]}
    for state, rules in MESSAGES[Sender.YOD].items():
        others = MESSAGES[Sender.PARENT][state]
        differ = {kind for kind in {*rules, *others} if rules.get(kind) != others.get(kind)}
        assert {kind.__struct_config__.tag for kind in differ} <= told_apart


# -- a node -----------------------------------------------------------------


def test_the_nodes_tables_in_the_code_are_the_one_on_the_page():
    _, rows = table_after("### 5.2 A node")
    of_bebopd = {row[1].strip("`") for row in rows if row[0] == "PARTITION"}
    assert of_bebopd == {kind.__struct_config__.tag for kind in FROM_BEBOPD}
    of_no_job = {
        row[1].partition(" ")[0].strip("`") for row in rows if row[1].endswith("that is not here")
    }
    assert of_no_job - {"another"} == {kind.__struct_config__.tag for kind in OF_NO_JOB}
