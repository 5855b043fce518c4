"""The batch job that a process runs in, by its variables, and what starts PCTs there."""

from __future__ import annotations

import os

import pytest

from native.errors import PartitionError
from partition.find import batch, state
from partition.find.batch import BatchJob, counts
from partition.hosts import flux, launchers, slurm
from partition.hosts.launchers import Pct

JOB = {
    "SLURM_JOB_ID": "17",
    "SLURM_JOB_NUM_NODES": "3",
    "SLURM_JOB_NODELIST": "n[0-2]",
    "SLURM_TASKS_PER_NODE": "4(x3)",
    "SLURM_JOB_CPUS_PER_NODE": "8(x3)",
}


@pytest.mark.parametrize(
    ("text", "slots"),
    [
        ("4", (4,)),
        ("4(x3)", (4, 4, 4)),
        ("3,1(x2)", (3, 1, 1)),
        ("", ()),
        ("0", ()),
        ("x", ()),
        ("4(x", ()),
        ("1(x999999)", ()),
        ("4(x3),", ()),
    ],
)
def test_counts_are_as_slurm_writes_them(text, slots):
    assert counts(text) == slots


def test_the_slots_of_a_job_are_its_tasks():
    assert batch.job(JOB) == BatchJob("slurm", "17", "n[0-2]", (4, 4, 4), False)


def test_the_slots_of_a_shell_in_a_step_are_the_jobs_processors():
    step = {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "1", "SLURM_TASKS_PER_NODE": "1"}
    found = batch.job({**JOB, **step, "SLURMD_NODENAME": "n0"})
    assert found == BatchJob("slurm", "17", "n[0-2]", (8, 8, 8), True)


@pytest.mark.parametrize(
    "more",
    [
        {"SLURM_JOB_ID": ""},
        {"SLURM_JOB_ID": "../17"},
        {"SLURM_JOB_NUM_NODES": "2"},
        {"SLURM_TASKS_PER_NODE": "many"},
        {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "3"},
        {"YOD_RANK": "0"},
    ],
)
def test_where_the_variables_do_not_fit_there_is_no_job(more):
    assert batch.job({**JOB, **more}) is None


def test_a_job_of_one_node_needs_pcts_only_elsewhere():
    one = {**JOB, "SLURM_JOB_NUM_NODES": "1", "SLURM_TASKS_PER_NODE": "4"}
    there, here = batch.job(one), batch.job({**one, "SLURMD_NODENAME": "n0"})
    assert there is not None and there.needs_pcts
    assert here is not None and not here.needs_pcts
    opened = batch.job({**one, "SLURMD_NODENAME": "n0", "YOD_OPEN_TO": "login1"})
    assert opened is not None and opened.needs_pcts and opened.open_to == "login1"


@pytest.mark.parametrize(
    ("slots", "last"), [((4, 4), ["4"]), ((3, 1), ["3", "1"])], ids=["alike", "not alike"]
)
def test_srun_starts_one_pct_a_node_with_its_slots(slots, last):
    words = slurm.command(BatchJob("slurm", "17", "", slots, False), "/d", "tag")
    assert words[words.index("-n") + 1] == words[words.index("-N") + 1] == "2"
    assert words[-len(last) - 3 :] == ["yod", "/d", "tag", *last]


def test_srun_takes_no_number_of_tasks_from_the_job():
    given = {"SLURM_NTASKS": "5", "SLURM_JOB_ID": "17", "PATH": "/bin"}
    assert slurm.environment(given) == {"SLURM_JOB_ID": "17", "PATH": "/bin"}


@pytest.fixture
def host_file(tmp_path):
    def write(text):
        path = tmp_path / "hosts"
        path.write_text(text)
        return str(path)

    return write


def test_every_mark_of_a_batch_system_is_looked_for():
    assert set(state.BATCH_MARKS) == set(batch.SYSTEMS)
    assert not state.may_be_in_job({"PATH": "/bin", "YOD_RANK": "1"})


# The node files that OpenPBS writes: select 3:ncpus=1, 1:ncpus=3, 1:mpiprocs=4+1:mpiprocs=1
# and nodes=2:ppn=2.
@pytest.mark.parametrize(
    ("lines", "hosts", "slots", "firsts"),
    [
        ("n0 n0 n0", ("n0",), (3,), (0,)),
        ("n0", ("n0",), (1,), (0,)),
        ("n0 n0 n0 n0 n1", ("n0", "n1"), (4, 1), (0, 4)),
        ("n0 n0 n1 n1", ("n0", "n1"), (2, 2), (0, 2)),
        ("n0 n1 n0", ("n0", "n1"), (2, 1), (0, 1)),
    ],
)
def test_a_line_of_a_node_file_is_a_slot(host_file, lines, hosts, slots, firsts):
    path = host_file(lines.replace(" ", "\n") + "\n")
    found = batch.job({"PBS_JOBID": "7.pbs", "PBS_NODEFILE": path, "PBS_TASKNUM": "1"})
    assert found == BatchJob("pbs", "7.pbs", "", slots, False, hosts, firsts)


def test_a_job_of_this_host_alone_needs_no_pcts(host_file):
    name = os.uname().nodename
    found = batch.job({"PBS_JOBID": "7", "PBS_NODEFILE": host_file(f"{name}.site.org\n{name}.x\n")})
    assert found is not None and found.is_here
    found = batch.job({"PBS_JOBID": "7", "PBS_NODEFILE": host_file(f"{name}\n{name}\n")})
    assert found is not None and not found.needs_pcts and found.slots == (2,)


def test_each_system_names_its_hosts_in_its_way(host_file):
    path = host_file("n0\nn0\nn1\n")
    told = [
        {"PBS_JOBID": "7[2].pbs", "PBS_NODEFILE": path},
        {"OAR_JOB_ID": "7", "OAR_NODE_FILE": path},
        {"OAR_JOBID": "7", "OAR_NODEFILE": path},
        {"LSB_JOBID": "7", "LSB_JOBINDEX": "2", "LSB_DJOB_HOSTFILE": path},
        {"LSB_JOBID": "7", "LSB_MCPU_HOSTS": "n0 2 n1 1"},
        {"LSB_JOBID": "7", "LSB_HOSTS": "n0 n0 n1"},
        {"YOD_HOST_FILE": path},
    ]
    found = [batch.job(environment) for environment in told]
    assert all(job is not None and job.hosts == ("n0", "n1") for job in found)
    assert all(job is not None and job.slots == (2, 1) for job in found)
    assert [str(job) for job in found][:5] == [
        *("pbs job 7[2].pbs", "oar job 7", "oar job 7", "lsf job 7[2]", "lsf job 7"),
    ]


def test_the_innermost_job_is_the_one(host_file):
    pbs = {"PBS_JOBID": "7", "PBS_NODEFILE": host_file("n0\nn1\n")}
    inner = batch.job({**pbs, **JOB})
    assert inner is not None and inner.system == "slurm"
    inner = batch.job({**pbs, **JOB, "FLUX_URI": "local:///x"})
    assert inner is not None and inner.system == "flux" and inner.needs_pcts


@pytest.mark.parametrize(
    "more",
    [
        {"PBS_TASKNUM": "2"},
        {"PBS_JOBID": "../7"},
        {"YOD_RANK": "0"},
        {"FLUX_URI": "local:///x", "FLUX_TASK_RANK": "1"},
        {"FLUX_URI": "ssh://x", "FLUX_PROXY_REMOTE": "x"},
    ],
)
def test_a_task_among_many_is_in_no_job_of_its_own(host_file, more):
    assert batch.job({"PBS_JOBID": "7", "PBS_NODEFILE": host_file("n0\nn1\n"), **more}) is None


@pytest.mark.parametrize("text", ["", "# none\n", "-oProxyCommand=x\n", "n0;x\n"])
def test_a_node_file_without_hosts_is_an_error(host_file, text):
    with pytest.raises(PartitionError, match=r"^PBS_NODEFILE "):
        batch.job({"PBS_JOBID": "7", "PBS_NODEFILE": host_file(text)})


def test_flux_has_a_slot_for_each_core_of_each_broker():
    data = (
        b'{"version":1,"execution":{"R_lite":[{"rank":"1-2","children":{"core":"0-3,8"}},'
        b'{"rank":"4","children":{"core":"0","gpu":"0"}}],"nodelist":["n[1-2]","m"]}}'
    )
    found = flux.of_resources("f1", data)
    assert (found.hosts, found.slots, found.firsts) == (("n1", "n2", "m"), (5, 5, 1), (1, 2, 4))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b'{"execution":{"R_lite":[{"rank":"0-1"}],"nodelist":["n0"]}}',
        b'{"execution":{"R_lite":[{"rank":"x"}],"nodelist":["n0"]}}',
    ],
)
def test_what_is_no_resource_set_is_an_error(data):
    with pytest.raises(PartitionError, match=r"^flux resource R: "):
        flux.of_resources("f1", data)


PCT = Pct("/d", "10.0.0.1:7", "tag", ("YOD_LIVENESS_S=3",))


def of(system, hosts=("n0", "n1"), firsts=(0, 4)):
    return BatchJob(system, "7", "", (4, 2), True, hosts, firsts)


def test_pbsdsh_starts_one_pct_on_the_first_line_of_each_host():
    first, second = launchers.commands(of("pbs"), PCT, {"PBS_JOBCOOKIE": "x"})
    assert first.words[:5] == ("pbsdsh", "-n", "0", "--", "env")
    assert second.words[:3] == ("pbsdsh", "-n", "4") and not second.takes_key
    assert second.words[second.words.index("--slots") :][:2] == ("--slots", "2")
    assert "x" not in second.words  # the secret is in nobody's arguments
    with pytest.raises(PartitionError, match="no PBS_JOBCOOKIE"):
        launchers.commands(of("pbs"), PCT, {})


@pytest.mark.parametrize(
    ("system", "words"),
    [
        ("oar", ("oarsh", "--", "n1")),
        ("lsf", ("blaunch", "n1", "/d/pct")),
        ("flux", ("flux", "exec", "-r", "4", "sh", "-c")),
        ("hosts", ("ssh", "-F", "x", "-o", "BatchMode=yes", "-T", "--", "n1")),
    ],
)
def test_others_are_told_the_key_on_standard_input(system, words):
    command = launchers.commands(of(system), PCT, {"YOD_SSH": "ssh -F x"})[1]
    assert command.words[: len(words)] == words
    assert command.takes_key and command.host == "n1"
    assert " ".join(command.words).endswith("--starter-fd 0 --until-fd 0")


def test_words_for_lsf_are_the_same_with_and_without_a_shell():
    for word in launchers.commands(of("lsf"), PCT, {})[1].words:
        assert not set(word) & set(" \t$\"'\\;&|<>()*?`!~#{}[]"), word
