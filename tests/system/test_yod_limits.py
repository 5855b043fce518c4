"""What the shell limits (ulimit): raised where it may be, else named with its number."""

from __future__ import annotations

import os
import resource
import subprocess

import pytest

from tests.support.partition import BIN
from tests.support.wait import LIMIT_S

pytestmark = pytest.mark.warm


def test_five_thousand_ranks_run_where_descriptors_suffice(embedded):
    """One keeper took 4096."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 10_200:
        pytest.skip(f"the hard limit of open files is {hard}, 5000 ranks need 10001")
    done = embedded.yod("-sz", "5000", "sh", "-c", "echo $YOD_RANK", timeout=10 * LIMIT_S)
    assert (done.status, done.err) == (0, "")
    assert sorted(map(int, done.out.split())) == list(range(5000))


def test_soft_limits_are_the_ranks_and_bind_no_launch(embedded):
    text = "echo $(ulimit -Sn) $(ulimit -Sf)"
    done = embedded.yod_under_shell(
        "-sz", "150", "sh", "-c", text, before="ulimit -Sn 200; ulimit -Sf 1"
    )
    assert (done.status, done.err) == (0, "")
    assert done.out.split() == ["200", "1"] * 150


@pytest.mark.cold  # a launch server has descriptors of its own
def test_too_few_descriptors_refuse_a_launch_before_anything_runs(embedded, tmp_path):
    ran = tmp_path / "ran"
    done = embedded.yod_under_shell("-sz", "200", "touch", ran, before="ulimit -n 300")
    assert (done.status, done.out) == (125, "")
    assert "200 ranks need 401 descriptors for their streams, " in done.err
    assert "the limit of open files is 300 (ulimit -Hn)" in done.err
    assert len(done.err.splitlines()) == 1 and not ran.exists()


@pytest.mark.cold  # the hard limit is too small for the request
def test_a_limit_of_file_sizes_that_stops_a_launch_is_named(embedded):
    done = embedded.yod_under_shell("-sz", "2", "true", before="ulimit -f 1")
    assert (done.status, done.out) == (125, "")
    (line,) = done.err.splitlines()
    assert "a file of " in line and "the limit is 512 (ulimit -f)" in line


@pytest.mark.cold
def test_no_bytecode_is_written_where_it_would_be_cut(embedded, tmp_path):
    """Python left such files in the installation, and no later start could read them."""
    (tmp_path / "said.py").write_text("import sys\ndef main(): print(sys.dont_write_bytecode)\n")
    script = (BIN / "yod-cold").read_text()
    assert script.count("from yod.command import main\n") == 1
    probe = tmp_path / "yod"
    of_ours = f"sys.path.append({os.fspath(tmp_path)!r})\nfrom said import main\n"
    probe.write_text(script.replace("from yod.command import main\n", of_ours))
    probe.chmod(0o755)
    (tmp_path / "python3").symlink_to(BIN / "python3")
    for limits, expected in (("true", "False"), ("ulimit -f 1", "True")):
        done = subprocess.run(
            ["sh", "-c", f'{limits}; exec "$@"', "sh", probe], capture_output=True, text=True
        )
        assert done.stdout.strip() == expected, done.stderr


@pytest.mark.cold
def test_a_start_on_a_full_disk_names_it(embedded, place, needs_root, tmp_path):
    """It said `[Errno 28]` and no file."""
    full = tmp_path / "full"
    full.mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k,mode=700", "none", full], check=True)
    try:
        for filled, said in (
            (16, f"it has written nothing; no space is left in {full}/yod/logs"),
            (8, f"yodctl: {full}/yod/partition.json: No space left on device"),
        ):
            (full / "ballast").write_bytes(bytes(filled << 10))
            done = subprocess.run(
                [BIN / "yodctl", "up", "--local", "1"],
                env=embedded.environment({"XDG_RUNTIME_DIR": str(full)}),
                capture_output=True,
                text=True,
                timeout=LIMIT_S,
            )
            assert done.returncode == 1 and said in done.stderr, done.stderr
            assert [path.name for path in full.iterdir()] == ["ballast"]
    finally:
        subprocess.run(["umount", full], check=True)
