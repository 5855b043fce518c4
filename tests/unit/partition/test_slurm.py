"""Slurm's commands in words of ours."""

import pytest

from native.errors import UsageError
from partition.submit.slurm import ours


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("sbatch -n4 -t 10 job.sh -x 1", "yodjob submit --as-sbatch -sz 4 -time 10 job.sh -x 1"),
        (
            "sbatch --parsable --array=0-9%2 job.sh",
            "yodjob submit --as-sbatch -quiet -array 0-9%2 job.sh",
        ),
        (
            "sbatch -W -J a --exclusive job.sh",
            "yodjob submit --as-sbatch --wait -name a --exclusive job.sh",
        ),
        (
            "sbatch --test-only -p long job.sh",
            "yodjob submit --as-sbatch --test-only -queue long job.sh",
        ),
        ("sbatch -H job.sh", "yodjob submit --as-sbatch -hold job.sh"),
        ("srun -n 4 ./a -n 2", "yod -sz 4 ./a -n 2"),
        ("srun -N2 --ntasks-per-node=8 -l ./a", "yod --label -N 2 --ranks-per-node 8 ./a"),
        ("srun --pty bash -i", "yod --pty bash -i"),
        ("srun -t 5 -D /scratch ./a -directory", "yod -time 5 --chdir /scratch ./a -directory"),
        ("srun --exclusive -c 4 -- ./a", "yod --exclusive --cores-per-rank 4 ./a"),
        ("salloc -n 8 -t 1:00:00", "yodjob alloc -sz 8 -time 1:00:00"),
        ("srun -n 4 -C gpu ./a", "yod -sz 4 --constraint gpu ./a"),
        ("salloc -N 2 ./work", "yodjob alloc -N 2 ./work"),
        ("srun --cpu-bind=sockets ./a", "yod --bind socket ./a"),
        ("srun --cpu-bind=v,ldoms ./a", "yod --bind numa ./a"),
        ("srun --cpu-bind=verbose,cores -n 2 ./a", "yod --bind core -sz 2 ./a"),
        ("srun --cpu-bind none ./a", "yod --bind none ./a"),
        ("srun --cpu-bind=threads ./a", "yod --threads-per-core 1 ./a"),
        ("srun -x n3 ./a", "yod --exclude n3 ./a"),
        ("sbatch --exclude=n3 job.sh", "yodjob submit --as-sbatch --exclude n3 job.sh"),
        ("squeue", "yodjob list"),
        ("squeue -j 17,18", "yodjob show 17 18"),
        ("squeue --jobs=17", "yodjob show 17"),
        ("scancel 17 18_3", "yodjob cancel 17 18_3"),
        ("scancel -s USR1 17", "yodjob signal USR1 17"),
        ("scancel --signal=USR1 17", "yodjob signal USR1 17"),
        ("sinfo", "pingd"),
        ("sacct -j 17", "yodjob history 17"),
        ("scontrol show job 17", "yodjob show 17"),
        ("scontrol show nodes", "pingd"),
        ("scontrol hold 17,18", "yodjob hold 17 18"),
        ("scontrol requeue 17", "yodjob requeue 17"),
        ("scontrol update JobId=17 TimeLimit=1:00:00", "yodjob update -time 1:00:00 17"),
        ("scontrol update jobid=17 Nice=5 Priority=9", "yodjob update -nice 5 -prio 9 17"),
    ],
)
def test_a_command_has_its_counterpart(line, words):
    name, *given = line.split()
    command = ours(name, given)
    assert " ".join(command.words) == words
    assert command.warnings == ()


def test_a_command_of_the_shell_stays_one_word():
    command = ours("sbatch", ["-n", "2", "--wrap", "echo a b"])
    assert command.words[3:] == ("--wrap", "echo a b", "-sz", "2")
    assert ours("sbatch", ["--wrap=echo a b"]).words[-1] == "echo a b"


@pytest.mark.parametrize(
    ("line", "warning"),
    [
        ("sbatch --mail-type=END job.sh", "--mail-type: ignored"),
        ("squeue -u alice", "-u: ignored"),
        ("squeue --me", "--me: ignored"),
        ("sinfo -N -l", "-N: ignored"),
    ],
)
def test_what_changes_nothing_that_runs_gets_a_warning(line, warning):
    name, *given = line.split()
    assert ours(name, given).warnings[0] == warning


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("sreport", "no command of Slurm's that is known"),
        ("sbatch --cluster-constraint=x job.sh", "--cluster-constraint is not there here"),
        ("sbatch -n x job.sh", "-sz x"),
        ("sbatch -n", "-n needs a value"),
        ("srun -n 4", "no program"),
        ("srun -b 18:30 ./a", "-begin is for batch jobs only"),
        (
            "srun --cpu-bind=map_cpu:0,1 ./a",
            "--cpu-bind=map_cpu:0,1 is not there here: cores, sock",
        ),
        ("srun --cpu-bind", "--cpu-bind needs a value"),
        ("salloc --begin=18:30", "-begin is for batch jobs only"),
        ("squeue -o %i", "-o is not there here"),
        ("scancel", "no id"),
        ("scancel --state=PD", "--state=PD is not there here"),
        ("scontrol ping", "ping: not there here"),
        ("scontrol hold", "not there here"),
        ("scontrol update JobId=17", "needs JobId="),
        ("scontrol update JobId=17 NumNodes=4", "NumNodes=4: not there here"),
    ],
)
def test_what_has_no_counterpart_is_refused(line, text):
    name, *given = line.split()
    with pytest.raises(UsageError) as raised:
        ours(name, given)
    assert text in str(raised.value)
    if name != "sreport":
        assert str(raised.value).startswith(f"{name}: ")
