"""Processes of a batch job that nobody ends are told from those that somebody does."""

from native.machine import Log, Send
from native.wire import status
from partition.status import why
from pct.host.health.rogues import PBS, SLURM, Job, Seen, described, job_of, strays, strays_of_slurm
from pct.rare_events import RoguesSeen
from tests.unit.allocator.partition_of import Partition, pct, spec
from tests.unit.allocator.test_operators import rows, states
from tests.unit.pct.node_of import ready

MOM, SCRIPT, TASK, PCT, KEEPER, RANK = 10, 20, 30, 31, 40, 41
JOB = Job(PBS, "0.pbs")
TEXT = "of pbs job 0.pbs, which PBS does not end: 50 (sleep)"

# The processes of a node: the script of the job, and the pct below the shell of a task.
NODE = {
    1: Seen("systemd", 0, 1),
    MOM: Seen("pbs_mom", 1, MOM),
    SCRIPT: Seen("bash", MOM, SCRIPT),
    21: Seen("yod", SCRIPT, SCRIPT),
    22: Seen("sleep", 1, SCRIPT),  # its parent has ended
    TASK: Seen("sh", MOM, TASK),
    PCT: Seen("python3.11", TASK, TASK),
    KEEPER: Seen("yod-keeper", PCT, KEEPER),
    RANK: Seen("a.out", KEEPER, RANK),
    42: Seen("sleep", KEEPER, 42),  # a rank has started it in a session of its own
}


def found(more):
    return strays(NODE | more, PCT)


def test_what_pbs_has_started_and_what_is_below_a_pct_or_a_keeper_is_no_rogue():
    # Not of the job at all: of that its environment tells.
    assert found({}) == [MOM]
    embedded = {60: Seen("yod-keeper", 21, 60), 61: Seen("a.out", 60, 61)}
    assert found(embedded) == [MOM]


def test_a_session_that_pbs_has_not_begun_is_one_of_rogues():
    below_script, orphan = Seen("sleep", SCRIPT, 50), Seen("sleep", 1, 51)
    assert found({50: below_script, 51: orphan}) == [MOM, 50, 51]
    of_ended_task = Seen("sleep", 1, 99)
    assert found({52: of_ended_task}) == [MOM, 52]


def test_of_what_cannot_be_seen_nothing_is_said():
    assert found({50: Seen("sleep", 49, 50)}) == [MOM]  # its parent ended while we looked
    assert found({50: Seen("a", 51, 50), 51: Seen("b", 50, 51)}) == [MOM]
    hidden = {pid: each for pid, each in NODE.items() if pid != TASK}
    assert strays(hidden, PCT) == []
    assert strays({}, PCT) == []


def test_a_host_that_hides_the_processes_of_others_shows_rogues_too():
    own = {pid: each for pid, each in NODE.items() if pid not in (1, MOM)}
    assert strays(own, PCT) == []
    assert strays(own | {50: Seen("sleep", SCRIPT, 50)}, PCT) == [50]


# The processes of a node of Slurm: the job's script, a step with the pct, and what they started.
OF_SLURM = {
    1: Seen("systemd", 0, 1),
    10: Seen("slurmd", 1, 10),
    11: Seen("slurmstepd", 1, 11),
    12: Seen("bash", 11, 11),
    13: Seen("sleep", 12, 13),  # a session of its own, and still below the daemon
    14: Seen("slurmstepd", 1, 14),
    PCT: Seen("python3.11", 14, 14),
    KEEPER: Seen("yod-keeper", PCT, KEEPER),
    RANK: Seen("a.out", KEEPER, RANK),
    60: Seen("salloc", 1, 60),
    61: Seen("sh", 60, 60),
    62: Seen("srun", 1, 62),  # of the partition: its parent has ended
}


def test_a_rogue_of_slurm_is_what_is_below_none_of_its_daemons_and_commands():
    assert strays_of_slurm(OF_SLURM, PCT) == [10]  # not of the job, as its environment tells
    more = {50: Seen("sleep", 1, 50), 51: Seen("sleep", 1, 11), 52: Seen("a", 50, 52)}
    assert strays_of_slurm(OF_SLURM | more, PCT) == [10, 50, 51, 52]
    assert strays_of_slurm(OF_SLURM | {50: Seen("sleep", 49, 50)}, PCT) == [10]
    assert described(Job(SLURM, "17"), [(50, "sleep")]) == (
        "of slurm job 17, which Slurm does not end: 50 (sleep)"
    )


def test_a_pct_looks_for_rogues_of_the_job_that_has_started_it_alone():
    both = {"PBS_JOBID": "0.pbs", "SLURM_JOB_ID": "17"}
    assert job_of(both, is_of_pbs=True, is_of_slurm=False) == JOB
    assert job_of(both, is_of_pbs=False, is_of_slurm=True) == Job(SLURM, "17")
    assert job_of(both, is_of_pbs=False, is_of_slurm=False) is None
    assert job_of({}, is_of_pbs=True, is_of_slurm=False) is None


def test_rogues_are_named_as_many_as_a_line_takes():
    assert described(JOB, []) == ""
    assert described(JOB, [(50, "sleep")]) == TEXT
    many = described(JOB, [(number, "a\n") for number in range(10)])
    assert many.endswith("6 ($'a\\n'), 7 ($'a\\n') and 2 more")


def test_a_pct_tells_bebopd_at_once_of_rogues_that_are_new():
    node = ready()
    (log, send) = node.handle(RoguesSeen(TEXT), 5.0)
    assert log == Log(f"rogue processes {TEXT}")
    assert isinstance(send, Send) and send.message.rogues == TEXT
    assert node.handle(RoguesSeen(TEXT), 6.0) == []
    assert f"rogue processes {TEXT}" in node.state(7.0)[0]
    (log, send) = node.handle(RoguesSeen(""), 8.0)
    assert log == Log("no rogue process is left") and send.message.rogues == ""


def test_a_node_with_rogues_says_so_and_is_given_to_jobs():
    partition = Partition(1)
    announce = status.Announce(0, "node0", 1, *pct(0), 1, rogues=TEXT)
    partition.receive(pct(0), announce)
    assert states(partition)[0] is status.NodeState.FREE
    lines = why.lines(rows(partition).values(), 0.0, 1e9)
    assert lines == [f"node 0 with rogue processes {TEXT}"]
    assert [each.node for each in partition.grant(spec(1)).nodes] == [0]
