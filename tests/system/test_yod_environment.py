"""What a rank gets of its user's surroundings."""

from __future__ import annotations

import os
import resource
import subprocess
import sys

import pytest

from tests.support.partition import BIN
from tests.support.programs import script
from tests.support.wait import LIMIT_S

pytestmark = pytest.mark.warm


def test_ranks_have_the_users_environment_and_their_own_variables(here):
    done = here.yod("env", env={"MINE": "a b=c\nd", "EMPTY": ""})
    lines = done.out.splitlines()
    for expected in ("MINE=a b=c", "d", "EMPTY=", "YOD_RANK=0", "YOD_SIZE=1", "YOD_NODE=0"):
        assert expected in lines
    for expected in ("YOD_LOCAL_RANK=0", "YOD_LOCAL_SIZE=1", "YOD_MEMBER=0", "PMI_RANK=0"):
        assert expected in lines
    assert f"YOD_NODE_NAME={here.node_names[0]}" in lines


def test_nothing_of_the_launcher_is_seen(here):
    done = here.yod("sh", "-c", "env; ls -l /proc/self/fd")
    names = [line.partition("=")[0] for line in done.out.splitlines()]
    assert not [name for name in names if name.startswith(("LD_PRELOAD", "YODSTART", "YOD_HOLD"))]
    fds = [line.split()[-3] for line in done.out.splitlines() if " -> " in line]
    assert len(fds) <= 5  # three streams, PMI, and ls's own


def test_an_outer_launchers_variables_are_kept_aside(here):
    outer = {
        "PMI_RANK": "of-an-outer-one",
        "PMI_SIZE": "of-an-outer-one",
        "OMPI_COMM_WORLD_RANK": "of-an-outer-one",
        "PMIX_RANK": "of-an-outer-one",
        "SLURM_PROCID": "of-an-outer-one",
        "YOD_RANK": "of-an-outer-one",
    }
    done = here.yod("-sz", "1", "sh", "-c", "env | grep of-an-outer", env=outer)
    aside = [f"YOD_OUTER_{name}={value}" for name, value in sorted(outer.items())]
    assert (done.status, sorted(done.out.splitlines())) == (0, aside)


def test_yod_in_a_rank_starts_a_job_of_its_own(here):
    inner = f"{BIN}/yod -sz 2 sh -c 'echo inner $YOD_RANK of $YOD_SIZE'"
    done = here.yod("-sz", "1", "sh", "-c", inner)
    assert (done.status, sorted(done.out.splitlines())) == (0, ["inner 0 of 2", "inner 1 of 2"])


@pytest.mark.parametrize("size", [70_000, 1_500_000])
def test_a_large_environment_arrives(here, size):
    """Larger than a message: it travels as an object. One string has 128 kB at most."""
    count = size // 60_000 + 1
    values = {f"LARGE_{n}": str(n % 10) * 60_000 for n in range(count)}
    check = "import os; print(sum(len(v) for k, v in os.environ.items() if k.startswith('LARGE_')))"
    done = here.yod("-sz", "3", sys.executable, "-c", check, env=values)
    assert done == (0, f"{count * 60_000}\n" * 3, "")


def test_large_argument_lists_arrive(here):
    words = [f"{n:0100d}" for n in range(12_000)]
    check = "import sys; print(len(sys.argv), sum(map(len, sys.argv[1:])))"
    done = here.yod("-sz", "2", sys.executable, "-c", check, *words)
    assert done == (0, "12001 1200000\n" * 2, "")


def test_bytes_that_are_no_text_arrive_in_arguments_and_environment(here):
    check = "import os; print(os.environb[b'BYTES'], os.fsencode(__import__('sys').argv[1]))"
    environment = {os.fsencode(k): os.fsencode(v) for k, v in here.environment().items()}
    environment[b"BYTES"] = b"\xff\xfe\n"
    done = subprocess.run(
        [BIN / "yod", sys.executable, "-c", check, b"\x80\x81"],
        env=environment,
        capture_output=True,
        timeout=LIMIT_S,
    )
    assert done.stdout == b"b'\\xff\\xfe\\n' b'\\x80\\x81'\n", done.stderr


def test_a_program_whose_name_is_no_text_runs(here, tmp_path):
    path = os.fsencode(tmp_path) + b"/caf\xe9"
    with open(path, "w") as file:
        file.write("#!/bin/sh\nexit 3\n")
    os.chmod(path, 0o755)
    done = here.yod("-sz", "2", path)
    assert done.status == 3
    path = os.fsencode(tmp_path) + b"/none\xe9"
    assert here.yod("-sz", "2", path).status == 127


def test_directory_umask_and_limits_are_yods(here, tmp_path):
    def before_exec():
        os.umask(0o027)
        resource.setrlimit(resource.RLIMIT_NOFILE, (123, 456))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    text = "echo $(pwd; umask; ulimit -Sn; ulimit -c)"
    done = here.yod("-sz", "2", "sh", "-c", text, cwd=tmp_path, preexec_fn=before_exec)
    assert done == (0, f"{tmp_path} 0027 123 0\n" * 2, "")


def test_a_directory_that_has_gone_is_told(here, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    command = f"cd {gone}; rmdir {gone}; exec {BIN}/yod -sz 1 true"
    done = subprocess.run(
        ["sh", "-c", command],
        env=here.environment(),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 125
    assert "Traceback" not in done.stderr and "directory" in done.stderr


def test_signals_have_their_default_actions_in_ranks(here):
    """Python ignores SIGPIPE, and so would what it starts.

    Signals 32 and 33 are glibc's own: its posix_spawn leaves them ignored.
    """
    text = "grep -E '^Sig(Ign|Blk|Cgt)' /proc/self/status"
    done = here.yod("sh", "-c", f"exec {text}")
    masks = {line.split(":")[0]: int(line.split()[1], 16) for line in done.out.splitlines()}
    assert masks["SigBlk"] == 0
    assert masks["SigIgn"] & ~(3 << 31) == 0
    assert here.yod("sh", "-c", "yes | head -n 1").out == "y\n"


def test_every_rank_has_a_process_group_of_its_own(here):
    done = here.yod("-sz", "3", "sh", "-c", "cut -d' ' -f5 /proc/$$/stat")
    assert len({*done.out.split()}) == 3


def test_a_script_runs_with_its_interpreter_and_its_name(here, tmp_path):
    path = script(tmp_path / "tool", "#!/bin/sh -e\necho $0 $1 $-\n")
    done = here.yod(path, "word")
    assert (done.status, done.err) == (0, "")
    assert done.out.split()[:2] == [str(path), "word"]
