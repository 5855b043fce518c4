"""A site's hooks with real processes: programs around a job, and options of yod."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.batch import Jobs
from tests.support.nobody import NOBODY, as_nobody, yod_as_nobody
from tests.support.partition import BIN, ROOT, finish
from tests.support.wait import LIMIT_S, wait_for_exit, wait_until

pytestmark = pytest.mark.usefixtures("needs_root")

POINTS = (
    *("prolog", "step_network", "step_prolog", "rank_prolog"),
    *("step_epilog", "step_network_end", "epilog"),
)
TRIALS_COUNT = 10  # of what may fail where a process has no processor for long
PHASE_S = 600  # of a launch and its end: hooks take less together
OPTION = '[[option]]\nname = "scratch"\nargument = "GIB"\nhelp = "Scratch on each node."\n'


class SiteFiles:
    """A manifest, its programs, and a log that they write to.

    Attributes:
        env: of daemons and commands that are to find the manifest.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.manifest = directory / "hooks.toml"
        self.log = directory / "log"
        self.log.touch()
        self.log.chmod(0o666)  # hooks of the owner's write it, too
        self.env = {"YOD_HOOKS": str(self.manifest)}
        self.env |= {"YOD_PHASE_S": str(PHASE_S), "YOD_END_S": str(PHASE_S)}
        self.manifest.write_text("")

    def option(self) -> None:
        """Add the option --scratch."""
        with self.manifest.open("a") as file:
            file.write(OPTION)

    def hook(self, *points: str, text: str, name: str = "h1", timeout_s: float = 60.0) -> Path:
        """Add a hook whose program is a script of the shell with this text; ``$log`` is the log."""
        program = self.directory / name
        program.write_text(f"#!/bin/sh\nlog={self.log}\n{text}\n")
        program.chmod(0o755)
        with self.manifest.open("a") as file:
            file.write(f'[[hook]]\nname = "{name}"\nprogram = "{program}"\n')
            file.write(f"points = {json.dumps(points)}\ntimeout_s = {timeout_s}\n")
        return program

    def lines(self) -> list[str]:
        return self.log.read_text().splitlines()


@pytest.fixture
def site() -> Iterator[SiteFiles]:
    with tempfile.TemporaryDirectory(prefix="test-of-yod-", dir="/tmp") as name:
        os.chmod(name, 0o755)
        yield SiteFiles(Path(name))


def reason(partition) -> str:
    done = finish(partition.start_command(BIN / "pingd", "--json"))
    drain = json.loads(done.out)["nodes"][0]["drain"]
    return drain["reason"] if drain else ""


def resume(partition, *nodes: int) -> None:
    done = finish(partition.start_command(BIN / "yodctl", "resume", *map(str, nodes)))
    assert done.status == 0, done.err


def test_every_point_runs_in_order_as_its_user_and_finds_what_is_documented(
    site, start_local, theirs
):
    site.option()
    names = "YOD_JOB_ID YOD_JOB_UID YOD_JOB_GID YOD_NODE YOD_NODE_NAME YOD_NODE_COUNT"
    names += " YOD_NODE_SLOTS YOD_NODE_RANKS YOD_RANK YOD_OPTION_SCRATCH MINE PATH"
    said = " ".join(f"{name}=${name}" for name in names.split())
    site.hook(*POINTS, text=f'echo "$YOD_HOOK $(id -u):$(id -g) {said}" >>$log')
    local = start_local(1, env=site.env)
    env = {**site.env, "MINE": "yes"}
    done = yod_as_nobody(local, theirs, "--scratch", "7", "-sz", "2", "true", env=env)
    assert (done.status, done.err) == (0, "")
    seen = [line.split() for line in site.lines()]
    assert [line[0] for line in seen] == [*POINTS[:3], "rank_prolog", "rank_prolog", *POINTS[4:]]
    of_root = {"prolog", "step_network", "step_network_end", "epilog"}
    for point, who, *words in seen:
        found = dict(word.split("=", 1) for word in words)
        assert who == ("0:0" if point in of_root else f"{NOBODY}:{NOBODY}"), point
        assert found["MINE"] == ("" if point in of_root else "yes"), point
        assert found["YOD_OPTION_SCRATCH"] == "7"
        assert (found["YOD_JOB_UID"], found["YOD_JOB_GID"]) == (str(NOBODY), str(NOBODY))
        assert (found["YOD_NODE"], found["YOD_NODE_NAME"]) == ("0", "node0")
        assert (found["YOD_NODE_COUNT"], found["YOD_NODE_SLOTS"]) == ("1", "2")
        assert found["YOD_NODE_RANKS"] == "0,1"
        assert found["YOD_JOB_ID"].isdigit()
        if point in of_root:
            assert found["PATH"] == "/usr/sbin:/usr/bin:/sbin:/bin"
    assert {line[-4] for line in seen if line[0] == "rank_prolog"} == {"YOD_RANK=0", "YOD_RANK=1"}


def test_hooks_change_the_environment_of_ranks_and_print_before_them(site, start_local):
    site.hook("prolog", text="echo export A=1; echo export B=1; echo unset GONE")
    text = 'echo "export B=$YOD_RANK"; echo "print hello $YOD_RANK"'
    site.hook("rank_prolog", name="h2", text=text)
    local = start_local(2, slots=1, env=site.env)
    done = local.yod("-sz", "2", "sh", "-c", 'echo "$A $B $GONE"', env={"GONE": "here"})
    assert (done.status, done.err) == (0, "")
    lines = done.out.splitlines()
    assert sorted(lines) == ["1 0 ", "1 1 ", "hello 0", "hello 1"]
    assert all(lines.index(f"hello {rank}") < lines.index(f"1 {rank} ") for rank in (0, 1))


def test_a_prolog_that_fails_ends_the_launch_and_drains_its_node_until_it_is_resumed(
    site, start_local
):
    broken = site.directory / "broken"
    site.hook("prolog", text=f"[ ! -e {broken} ] || {{ echo no disk >&2; exit 3; }}")
    site.hook("epilog", name="h2", text="echo $YOD_HOOK >>$log")
    local = start_local(1, env=site.env)
    broken.touch()
    done = local.yod("-sz", "1", "echo", "ran")
    text = "prolog h1 failed: ended with exit code 3: no disk"
    assert (done.status, done.out) == (125, "")
    assert done.err.splitlines()[0] == f"yod: node 0 (node0): {text} (starting)"
    assert site.lines() == ["epilog"]
    wait_until(lambda: local.states() == ["drained"])
    assert reason(local).endswith(text)
    broken.unlink()
    resume(local, 0)
    assert local.yod("-sz", "1", "echo", "ran").out == "ran\n"


def test_a_prolog_that_hangs_is_killed_with_what_it_has_started(site, start_local):
    hang = site.directory / "hang"
    hang.touch()
    text = f"[ ! -e {hang} ] || {{ sleep 600 & echo $! >>$log; sleep 600; }}"
    site.hook("prolog", text=text, timeout_s=0.5)
    local = start_local(1, env=site.env)
    for _ in range(TRIALS_COUNT):
        done = local.yod("-sz", "1", "true")
        assert done.status == 125
        assert "prolog h1 failed: it did not end in 0.5 s" in done.err
        wait_until(lambda: local.states() == ["drained"])
        if site.lines():  # else it was killed before it had started anything
            break
        resume(local, 0)
    for line in site.lines() or ["nothing was started"]:
        wait_for_exit(int(line))
    hang.unlink()
    resume(local, 0)


def test_what_a_hook_leaves_behind_ends_with_it_and_holds_nothing_up(site, start_local):
    site.hook("prolog", "epilog", text="setsid sleep 600 & echo $! >>$log; trap '' HUP")
    local = start_local(1, env=site.env)
    assert local.yod("-sz", "1", "true").status == 0
    for unix_pid in map(int, site.lines()):
        wait_for_exit(unix_pid)
    assert len(site.lines()) == 2
    assert local.states() == ["free"]


def test_nonsense_on_both_streams_of_a_hook_changes_nothing(site, start_local):
    noise = "head -c 3000000 /dev/urandom; head -c 3000000 /dev/urandom >&2"
    site.hook("prolog", "rank_prolog", text=f"{noise}; echo; echo export LATE=1")
    local = start_local(1, env=site.env)
    done = local.yod("-sz", "1", "sh", "-c", 'echo "<$LATE>"')
    assert (done.status, done.out) == (0, "<>\n")
    assert local.states() == ["free"]


def test_a_hook_refuses_a_job_and_its_node_stays(site, start_local):
    site.option()
    site.hook("prolog", text='[ "$YOD_OPTION_SCRATCH" = 1 ] || echo "refuse scratch must be 1"')
    local = start_local(1, env=site.env)
    done = local.yod("--scratch", "$(reboot)", "-sz", "1", "true", env=site.env)
    assert done.status == 125
    assert "node 0 (node0): prolog h1 refuses the job: scratch must be 1 (starting)" in done.err
    assert local.yod("--scratch=1", "-sz", "1", "true", env=site.env).status == 0
    assert local.states() == ["free"]


def test_an_interrupt_kills_the_hook_that_runs_undoes_it_and_blames_no_node(site, start_local):
    fifo = site.directory / "fifo"
    os.mkfifo(fifo)
    text = f"echo $YOD_HOOK >>$log; [ $YOD_HOOK = epilog ] || {{ echo in >{fifo}; sleep 600; }}"
    site.hook("prolog", "epilog", text=text)
    local = start_local(1, env=site.env)
    yod = local.start_yod("-sz", "1", "true")
    assert fifo.read_text() == "in\n"
    yod.terminate()
    yod.communicate(timeout=LIMIT_S)
    assert yod.returncode == -signal.SIGTERM
    assert site.lines() == ["prolog", "epilog"]
    assert local.states() == ["free"]


def test_hooks_of_an_allocation_run_once_and_those_of_steps_in_each_as_the_owner(
    site, start_local, theirs
):
    site.hook(
        *POINTS, text='echo "$YOD_HOOK $YOD_JOB_ID $(id -u)" >>$log; echo "export L=$YOD_HOOK"'
    )
    site.hook("prolog", name="h2", text="echo export FROM=allocation; echo unset GONE")
    local = start_local(1, env=site.env)
    steps = f"for i in 1 2; do {BIN}/yod -sz 1 sh -c 'echo \"$FROM $L $GONE\"'; done"
    words = (BIN / "yodjob", "alloc", "-quiet", "-sz", "2", "sh", "-c", steps)
    done = finish(as_nobody(local, theirs, *words, env={"GONE": "here"}))
    assert (done.status, done.err, done.out) == (0, "", "allocation rank_prolog \n" * 2)
    seen = [line.split() for line in site.lines()]
    allocation = seen[0][1]
    of_step = ("step_prolog", "rank_prolog", "step_epilog")
    expected = [["prolog", allocation, "0"], ["step_network", allocation, "0"]]
    for step in (1, 2):
        expected += [[point, f"{allocation}.{step}", str(NOBODY)] for point in of_step]
    expected += [["step_network_end", allocation, "0"], ["epilog", allocation, "0"]]
    assert seen == expected


@pytest.fixture
def hooked_jobs(site, start_local, tmp_path) -> Iterator[Jobs]:
    """Two nodes of one slot, whose prolog waits for a word on ``go`` and fails after another."""
    # One at a time: both would read letters of the same word.
    text = f"exec 9>{tmp_path}/lock; flock 9; read -r word <{tmp_path}/go; exec 9>&-; "
    text += 'echo "$YOD_HOOK $YOD_NODE" >>$log; [ "$word" = go ]'
    site.hook("prolog", text=text)
    site.hook("epilog", name="h2", text='echo "$YOD_HOOK $YOD_NODE" >>$log')
    jobs = Jobs(start_local(2, slots=1, env=site.env), tmp_path)
    yield jobs
    jobs.close()


def test_a_batch_script_begins_when_the_prologs_of_all_its_nodes_have_succeeded(hooked_jobs, site):
    jobs = hooked_jobs
    job_id = jobs.submit("-sz", "2", text=f"echo script >>{site.log}; {BIN}/yod -sz 2 echo step")
    wait_until(lambda: jobs.state(job_id) == "RUNNING")
    jobs.go.say("go")
    wait_until(lambda: len(site.lines()) == 1)
    jobs.go.say("go")
    assert jobs.wait(job_id) == 0
    assert jobs.output(job_id) == "step\nstep\n"
    assert sorted(site.lines()[:2]) == ["prolog 0", "prolog 1"]
    assert site.lines()[2] == "script"
    assert sorted(site.lines()[3:]) == ["epilog 0", "epilog 1"]


def test_a_batch_job_whose_prolog_fails_waits_again_and_runs_once_elsewhere(hooked_jobs, site):
    jobs = hooked_jobs
    job_id = jobs.submit("-sz", "2", text=f"echo script $YOD_RESTART_COUNT >>{site.log}")
    jobs.go.say("go")
    jobs.go.say("no")
    wait_until(lambda: sorted(jobs.partition.states()) == ["drained", "free"])
    wait_until(lambda: jobs.state(job_id) == "PENDING")
    reason = "prolog h1 failed: ended with exit code 1"
    assert sorted(site.lines()) == ["epilog 0", "epilog 1", "prolog 0", "prolog 1"]
    resume(jobs.partition, jobs.partition.states().index("drained"))
    jobs.go.say("go")
    jobs.go.say("go")
    assert jobs.wait(job_id) == 0
    assert site.lines().count("script 1") == 1
    events = jobs.yodjob("show", "--events", job_id).out
    (line,) = (line for line in events.splitlines() if "waits again (1 of 3): " in line)
    assert reason in line


def test_a_batch_job_that_was_placed_too_often_fails_with_the_reason(site, start_local, tmp_path):
    site.hook("prolog", text="echo no disk >&2; exit 3")
    jobs = Jobs(start_local(2, slots=1, env={**site.env, "YOD_REQUEUES_COUNT": "1"}), tmp_path)
    job_id = jobs.submit("-sz", "1", "--wrap", "true")
    assert jobs.wait(job_id) == 125
    row = jobs.row(job_id)
    assert row["state"] == "FAILED"
    assert row["reason"].startswith("placed 2 times: ")
    assert "prolog h1 failed: ended with exit code 3: no disk" in row["reason"]
    wait_until(lambda: jobs.partition.states() == ["drained"] * 2)
    resume(jobs.partition, 0, 1)
    jobs.close()


def test_a_held_script_that_cannot_be_executed_ends_as_a_shell_says_it(hooked_jobs, tmp_path):
    jobs = hooked_jobs
    script = tmp_path / "job.sh"
    script.write_text("#!/no/such/interpreter\n")
    job_id = jobs.submit("-sz", "1", script)
    jobs.go.say("go")
    assert jobs.wait(job_id) == 127
    assert "No such file or directory" in jobs.output(job_id)


def test_a_cancelled_job_whose_script_has_not_begun_ends_and_is_undone(hooked_jobs, site):
    jobs = hooked_jobs
    job_id = jobs.submit("-sz", "1", text=f"echo script >>{site.log}")
    wait_until(lambda: jobs.state(job_id) == "RUNNING")
    assert jobs.yodjob("cancel", job_id).status == 0
    assert jobs.wait(job_id) == 143
    assert site.lines() in (["epilog 0"], ["epilog 1"], [])
    wait_until(lambda: jobs.partition.states() == ["free", "free"])


def test_a_detached_job_passes_the_options_of_the_site_on(site, start_local):
    site.option()
    site.hook("prolog", text='echo "scratch $YOD_OPTION_SCRATCH" >>$log')
    local = start_local(1, env=site.env)
    command = ("sh", "-c", "echo $YOD_OPTION_SCRATCH")
    words = ("--detach", "-quiet", "--scratch=5", "-sz=1")
    job_id = local.yod(*words, *command, env=site.env).out.strip()
    done = finish(local.start_command(BIN / "yodjob", "attach", job_id))
    assert (done.status, done.out) == (0, "5\n")
    assert set(site.lines()) == {"scratch 5"}


# -- options and mistakes, without daemons ----------------------------------


@pytest.mark.warm
def test_the_options_of_the_site_are_in_the_help_and_are_variables_of_the_ranks(here, site):
    site.option()
    done = here.yod("-help", env=site.env)
    assert "Options of this site:\n  --scratch GIB  Scratch on each node.\n" in done.out
    words = ("-sz", "1", "sh", "-c", "echo $YOD_OPTION_SCRATCH")
    assert here.yod("--scratch", "3", *words, env=site.env).out == "3\n"
    done = here.yod("--scratch", "3", *words)
    assert done.status == 125
    assert "--scratch: no such option here" in done.err


def test_an_option_that_yod_has_itself_is_refused(embedded, site):
    site.manifest.write_text('[[option]]\nname = "detach"\n')
    done = embedded.yod("-sz", "1", "true", env=site.env)
    said = f"yod: {site.manifest}: [[option]] detach: yod has it already\n"
    assert (done.status, done.err) == (125, said)


def pct(site: SiteFiles, **env: str) -> subprocess.CompletedProcess[str]:
    """A pct that does not get far."""
    key = site.directory / "key"
    key.write_bytes(b"k" * 32)
    key.chmod(0o600)
    words = [BIN / "pct", "--bebopd", "127.0.0.1:9", "--key-file", key, "--listen", "127.0.0.1:0"]
    whole = {**os.environ, **site.env, **env}
    return subprocess.run(words, env=whole, capture_output=True, text=True, timeout=LIMIT_S)


def test_a_mistake_in_the_manifest_is_one_line_of_pct_and_of_yod(embedded, site):
    site.manifest.write_text('[[hook]]\nname = "h1"\npoints = ["prologue"]\n')
    line = f"{site.manifest}: [[hook]] 1 (h1): program must be an absolute path\n"
    done = pct(site)
    assert (done.returncode, done.stderr) == (2, f"pct: {line}")
    shown = embedded.yod("-sz", "1", "true", env=site.env)
    assert (shown.status, shown.err) == (125, f"yod: {line}")


def test_a_pct_refuses_hooks_that_take_longer_than_a_launch_waits(site):
    site.hook("prolog", "rank_prolog", text="true", timeout_s=16)
    done = pct(site, YOD_PHASE_S="30")
    assert done.returncode == 2
    assert done.stderr == (
        f"pct: {site.manifest}: the hooks before the start of a job may take 32 s together "
        "(timeout_s): must be below 30 (YOD_PHASE_S)\n"
    )


def test_a_pct_of_roots_refuses_a_program_that_others_may_write(site):
    program = site.hook("prolog", text="true")
    program.chmod(0o777)
    done = pct(site)
    text = f"hook h1: {program}: {program} must be root's, and no other may write it\n"
    assert (done.returncode, done.stderr) == (2, f"pct: {site.manifest}: {text}")


# -- the page ----------------------------------------------------------------


def test_the_example_of_the_page_runs_as_it_stands(site, start_local):
    page = (ROOT / "docs" / "hooks.md").read_text()
    manifest, scratch, welcome = re.findall(r"```\n(.*?)```\n", page, re.S)
    site.manifest.write_text(manifest.replace("/etc/yod/hooks/", f"{site.directory}/"))
    for name, text in (("scratch", scratch), ("welcome", welcome)):
        (site.directory / name).write_text(text)
        (site.directory / name).chmod(0o755)
    local = start_local(1, env=site.env)
    command = ("-sz", "1", "sh", "-c", 'ls -d "$SCRATCH"; echo "$SCRATCH_OF_RANK $SCRATCH"')
    done = local.yod("--scratch-size", "10", *command, env=site.env)
    assert (done.status, done.err) == (0, "")
    said, there, last = done.out.splitlines()
    assert said == f"rank 0 has {there}"
    assert last == f"{there}/0 {there}"
    assert not Path(there).exists()
    done = local.yod("--scratch-size", "lots", "-sz", "1", "true", env=site.env)
    assert "prolog scratch refuses the job: scratch-size must be a number (starting)" in done.err
    assert local.states() == ["free"]


def test_a_node_that_a_check_of_the_sites_finds_unfit_is_in_trouble_until_it_is_well(
    site, start_local
):
    sick = site.directory / "sick"
    text = f"echo $YOD_HOOK $YOD_NODE_NAME >>$log\ntest ! -e {sick} || {{ echo hot >&2; exit 1; }}"
    site.hook("health", text=text)
    partition = start_local(1, env={**site.env, "YOD_HEALTH_S": "0.1"})
    sick.touch()
    wait_until(lambda: partition.states() == ["trouble"])
    shown = finish(partition.start_command(BIN / "pingd")).out
    assert "node 0 in trouble: health check h1: hot\n" in shown
    assert "1 trouble" in shown
    refused = partition.yod("true")
    assert (refused.status, "node 0 (node0) is in trouble" in refused.err) == (125, True)
    sick.unlink()
    wait_until(lambda: partition.states() == ["free"])
    assert partition.yod("true").status == 0
    assert set(site.lines()) == {"health node0"}
