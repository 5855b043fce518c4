"""Variables of Slurm and PBS for batch scripts: at submission, and where the script begins."""

import pytest

from native.errors import UsageError
from native.wire.alloc import NodeSpec
from native.wire.base import NO_TERMS, Terms
from native.wire.batch import Element, Start
from partition.submit import dialects
from pct.batch_dialects import VARIABLE, Begun, variables


def begun(systems, *, names=("n0", "n1"), slots=(4, 4), end=0, environment=(), **of_start):
    start = Start(17, 1000, 100, (), "job.sh", 0.0, b"", **of_start)
    return variables(
        Begun(start, names, slots, end, {VARIABLE: systems, "USER": "alice", **dict(environment)})
    )


EIGHT = NodeSpec(8)


def submitted(said, spec=EIGHT, terms=NO_TERMS, environment=()):
    return dialects.variables(said, spec, terms, "/home/alice", "login", dict(environment))


def test_both_halves_call_the_variable_that_names_the_systems_alike():
    assert dialects.VARIABLE == VARIABLE


def test_a_job_without_them_finds_none():
    assert begun("") == {}
    assert submitted("") == {}


def test_slurms_counts_are_of_nodes_tasks_and_cores():
    first = submitted("slurm", NodeSpec(5, per_node=4, cores=2), Terms(queue="long", account="a"))
    assert first == {
        "YODJOB_AS": "slurm",
        "SLURM_NTASKS": "5",
        "SLURM_NPROCS": "5",
        "SLURM_CPUS_PER_TASK": "2",
        "SLURM_NTASKS_PER_NODE": "4",
        "SLURM_SUBMIT_DIR": "/home/alice",
        "SLURM_SUBMIT_HOST": "login",
        "SLURM_JOB_PARTITION": "long",
        "SLURM_JOB_ACCOUNT": "a",
    }
    found = begun(
        "slurm", names=("n0", "n1", "n2"), slots=(4, 4, 2), end=99, environment=first.items()
    )
    assert found["SLURM_TASKS_PER_NODE"] == "2(x2),1"
    assert found["SLURM_JOB_CPUS_PER_NODE"] == "4(x2),2"
    assert found["SLURM_JOB_NUM_NODES"] == "3"
    assert found["SLURM_JOB_NODELIST"] == "n0,n1,n2"
    assert (found["SLURM_JOB_ID"], found["SLURM_JOB_END_TIME"]) == ("17", "99")
    assert "SLURM_RESTART_COUNT" not in found


def test_an_element_of_an_array_and_a_second_start_are_told():
    element = Element(16, 3)
    found = begun("slurm,pbs", element=element, attempt=2)
    assert (found["SLURM_ARRAY_JOB_ID"], found["SLURM_ARRAY_TASK_ID"]) == ("16", "3")
    assert found["SLURM_RESTART_COUNT"] == "2"
    assert (found["PBS_JOBID"], found["PBS_ARRAY_INDEX"]) == ("16[3]", "3")


def test_pbs_has_what_the_user_had_under_its_names():
    found = submitted("pbs", terms=Terms(queue="q"), environment=[("PATH", "/bin"), ("A", "b")])
    assert found == {
        "YODJOB_AS": "pbs",
        "PBS_O_WORKDIR": "/home/alice",
        "PBS_O_HOST": "login",
        "PBS_O_PATH": "/bin",
        "PBS_QUEUE": "q",
        "PBS_O_QUEUE": "q",
    }
    assert begun("pbs")["PBS_ENVIRONMENT"] == "PBS_BATCH"


def test_a_list_of_nodes_that_no_environment_holds_is_left_out():
    names = [f"node{number:06}" for number in range(4000)]
    found = begun("slurm", names=names, slots=[1] * 4000)
    assert "SLURM_JOB_NODELIST" not in found
    assert found["SLURM_TASKS_PER_NODE"] == "1(x4000)"


@pytest.mark.parametrize("cores", ["", "0", "-1", "x", "²"])
def test_what_a_user_has_set_to_nonsense_counts_as_one_core(cores):
    found = begun("slurm", environment=[("SLURM_CPUS_PER_TASK", cores)])
    assert found["SLURM_TASKS_PER_NODE"] == "4(x2)"


def test_a_system_that_is_not_known_is_refused():
    with pytest.raises(UsageError, match=r"^--as lsf: slurm, pbs, or both with a comma$"):
        submitted("slurm,lsf")
