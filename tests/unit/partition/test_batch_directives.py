"""What the head of a batch script asks for: #YOD lines, and those of Slurm and PBS."""

import pytest

from native.errors import UsageError
from native.wire.base import After, AfterKind, Dependency
from partition.submit import directives
from partition.submit.options import IN_SCRIPT
from yod.plan.after import parse as parse_after

KNOWN = list(IN_SCRIPT.values())


def read(*lines):
    return directives.read("\n".join(("#!/bin/sh", *lines)), KNOWN)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("#YOD -sz 4 -time 5", ["-sz", "4", "-time", "5"]),
        ("#YOD -n 4  # four of them", ["-sz", "4"]),
        ("#YOD -name 'a b' -o %j.out", ["-name", "a b", "-o", "%j.out"]),
        ("#YOD\t-list 0..3", ["-list", "0..3"]),
        ("#SBATCH -n 4", ["-sz", "4"]),
        ("#SBATCH -n4", ["-sz", "4"]),
        ("#SBATCH --ntasks=4 --time=1:00:00", ["-sz", "4", "-time", "1:00:00"]),
        ("#SBATCH --job-name a -o out", ["-name", "a", "-o", "out"]),
        ("#SBATCH -D /tmp", ["-directory", "/tmp"]),
        ("#SBATCH -N 2 --ntasks-per-node=4", ["-N", "2", "--ranks-per-node", "4"]),
        ("#SBATCH --cpus-per-task 3", ["--cores-per-rank", "3"]),
        ("#YOD --distribution plane=2", ["--distribution", "plane=2"]),
        ("#SBATCH -m cyclic", ["--distribution", "cyclic"]),
        ("#SBATCH --distribution=plane=4", ["--distribution", "plane=4"]),
        ("#SBATCH --ntasks-per-socket=4", ["--ranks-per-socket", "4"]),
        ("#SBATCH --sockets-per-node=2", ["--sockets-per-node", "2"]),
        ("#SBATCH --threads-per-core=1", ["--threads-per-core", "1"]),
        ("#SBATCH --ntasks-per-core=1", ["--ranks-per-core", "1"]),
        ("#SBATCH --hint=nomultithread", ["--threads-per-core", "1"]),
        ("#YOD --ranks-per-numa 2", ["--ranks-per-numa", "2"]),
        ("#PBS -N a -o out", ["-name", "a", "-o", "out"]),
        ("#PBS -l select=2:ncpus=4:mpiprocs=4", ["-sz", "8"]),
        ("#PBS -l nodes=2:ppn=3,walltime=1:00:00", ["-sz", "6", "-time", "1:00:00"]),
        ("#PBS -l walltime=90", ["-time", "0:90"]),
        ("#SBATCH --array=0-9%2", ["-array", "0-9%2"]),
        ("#PBS -J 0-9:3", ["-array", "0-9:3"]),
        ("#SBATCH --begin=now+1hour", ["-begin", "now+1hour"]),
        ("#SBATCH --deadline 18:30", ["-deadline", "18:30"]),
        ("#SBATCH --requeue", ["--requeue"]),
        ("#SBATCH -x n3", ["--exclude", "n3"]),
        ("#SBATCH --exclude=n[1-3],n7", ["--exclude", "n[1-3],n7"]),
        ("#YOD -x 3,5..7", ["--exclude", "3,5..7"]),
        ("#SBATCH --no-requeue", []),
        ("#PBS -r y", ["--requeue"]),
        ("#PBS -r n", []),
        ("#YOD --requeue", ["--requeue"]),
        ("#PBS -a 202712241830", ["-begin", "2027-12-24T18:30:00"]),
    ],
)
def test_what_ours_has_is_read(line, words):
    found = read(line)
    # Whatever spelling a line uses, it is that option's.
    names = {each: option.spellings[0] for option in KNOWN for each in option.spellings}
    assert [names.get(word, word) for word in found.words] == words
    assert found.warnings == []


@pytest.mark.parametrize(
    ("line", "warning"),
    [
        ("#SBATCH --mail-type=END", "#SBATCH --mail-type: ignored"),
        ("#SBATCH --nice=-5", "#SBATCH --nice: ignored, it is below 0"),
        ("#SBATCH --parsable", "#SBATCH --parsable: ignored"),
        ("#PBS -p 5", "#PBS -p: ignored"),
        ("#PBS -V", "#PBS -V: ignored"),
    ],
)
def test_what_changes_nothing_that_runs_is_a_warning(line, warning):
    assert read(line) == directives.Read([], [warning])


@pytest.mark.parametrize(("said", "over_nodes"), [("cyclic:block", "cyclic"), ("*:*", "block")])
def test_the_distribution_over_sockets_is_a_warning(said, over_nodes):
    found = read(f"#SBATCH -m {said}")
    inside = said.partition(":")[2]
    warning = f"#SBATCH -m: `:{inside}` is ignored"
    assert found == directives.Read(["--distribution", over_nodes], [warning])


@pytest.mark.parametrize(
    "line",
    [
        "#SBATCH --mem-per-cpu=4G",
        "#SBATCH --gres=fpga:2",
        "#SBATCH --mem=much",
        "#SBATCH -d aftercor:3",
        "#SBATCH --dependency=singleton:3",
        "#YOD --after afterok",
        "#YOD --after afterok:3.1",
        "#YOD --after after:1?after:2,after:3",
        "#SBATCH --exclusive=user",
        "#SBATCH -m arbitrary",
        "#SBATCH --ntasks-per-core=2",
        "#SBATCH --hint=memory_bound",
        "#YOD --sockets-per-node two",
        "#YOD --distribution cyclic:block",
        "#PBS -l mem=4gb",
        "#PBS -l select=2:mem=1gb",
        "#PBS -W depend=beforeok:1",
        "#PBS -W group_list=a",
        "#YOD --mem x",
        "#YOD script",
        "#SBATCH script",
        "#YOD 'open",
    ],
)
def test_what_would_change_the_run_refuses_the_script_and_names_the_line(line):
    with pytest.raises(UsageError) as raised:
        read("# a comment", line)
    assert str(raised.value).startswith("line 3: ")


def test_lines_below_the_first_command_and_longer_words_are_comments():
    assert read("", "# -sz 3", "#YODEL -sz 9", "#YOD -sz 2", "true", "#YOD -sz 4").words == [
        "-sz",
        "2",
    ]


@pytest.mark.parametrize("mark", ["#YOD", "#SBATCH"])
def test_whole_nodes_are_asked_for_without_a_value_among_options_that_have_one(mark):
    assert read(f"{mark} -n 2 --exclusive", "#YOD -name x").words == [
        *("-sz", "2", "--exclusive"),
        *("-name", "x"),
    ]


@pytest.mark.parametrize("line", ["#YOD -hold", "#SBATCH -H", "#SBATCH --hold", "#PBS -h"])
def test_a_job_is_handed_in_held(line):
    assert read(line, "#YOD -name x").words == ["-hold", "-name", "x"]


NO_VALUES = ("#YOD -sz", "#SBATCH -n", "#SBATCH --time", "#PBS -N")
WRONG = ("#YOD -sz many", "#YOD -time x", "#PBS -o %q", "#SBATCH -n x", "#SBATCH -N many")


@pytest.mark.parametrize("line", [*NO_VALUES, *WRONG])
def test_an_option_without_a_value_that_it_can_have_is_refused(line):
    with pytest.raises(UsageError, match="line 2"):
        read(line)


@pytest.mark.parametrize(
    "line",
    ["#YOD --after {}", "#SBATCH -d {}", "#SBATCH --dependency={}", "#PBS -W depend={}"],
)
def test_jobs_to_wait_for_are_read(line):
    text = "afterok:17:18,after:19"
    assert read(line.format(text)).words == ["--after", text]


def test_a_dependency_in_words():
    both = (After(AfterKind.OK, 17), After(AfterKind.OK, 18), After(AfterKind.ENDED, 3))
    assert parse_after("afterok:17:18,afterany:3") == Dependency(both)
    assert parse_after("after:1?afternotok:2") == Dependency(
        (After(AfterKind.BEGUN, 1), After(AfterKind.NOT_OK, 2)), is_any=True
    )
    with pytest.raises(UsageError, match="at most 64"):
        parse_after("after" + ":1" * 65)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("#SBATCH -p long", ["-queue", "long"]),
        ("#SBATCH --partition=long", ["-queue", "long"]),
        ("#PBS -q long@server", ["-queue", "long"]),
        ("#SBATCH -A physics", ["-account", "physics"]),
        ("#PBS -A physics", ["-account", "physics"]),
        ("#SBATCH -L matlab:2,ansys", ["-licenses", "matlab:2,ansys"]),
        ("#SBATCH --nice=100", ["-nice", "100"]),
    ],
)
def test_queues_of_other_systems_are_ours(line, words):
    read = directives.read(f"#!/bin/sh\n{line}\n", KNOWN)
    assert (read.words, read.warnings) == (words, [])
    assert bool(read.habits) == (words[0] in ("-queue", "-account"))


@pytest.mark.parametrize("line", ["#SBATCH -L matlab:x", "#YOD -nice -5", "#YOD -licenses ,"])
def test_licences_and_points_that_cannot_be_refuse_the_script(line):
    with pytest.raises(UsageError, match="line 2"):
        directives.read(f"#!/bin/sh\n{line}\n", KNOWN)


def test_singleton_is_for_what_has_a_name():
    after = Dependency((After(AfterKind.OK, 3),), is_singleton=True)
    assert parse_after("singleton,afterok:3", has_name=True) == after
    assert parse_after("singleton", has_name=True) == Dependency((), is_singleton=True)
    with pytest.raises(UsageError) as raised:
        parse_after("singleton")
    assert str(raised.value) == "--after singleton: only batch jobs wait so (yodjob submit)"
