"""What is asked of the program criu, and what is taken from it."""

from __future__ import annotations

import pytest

from native.errors import UsageError
from native.host.backends.criu import find
from partition.checkpoint import criu
from partition.doctor.host import findings
from yod.plan.checkpoint import Backend
from yod.plan.checkpointing import chosen

LOG = """\
(00.000000) Error (criu/util.c:1534): rlimit: Can't setup RLIMIT_NOFILE for self
pie: 1: Close the control socket for writing
(00.012345) Error (criu/sk-inet.c:202): inet: Connected TCP socket, consider using --tcp-established
(00.012399) Error (criu/cr-dump.c:1975): Dumping FAILED.
"""


def test_the_first_error_of_a_log_that_is_one_is_the_reason(tmp_path):
    (tmp_path / "dump.log").write_text(LOG)
    why = criu.why(str(tmp_path / "dump.log"))
    assert why == "inet: Connected TCP socket, consider using --tcp-established"


def test_a_log_that_is_not_there_or_says_nothing_is_said_to(tmp_path):
    assert criu.why(str(tmp_path / "none")) == "it has left no log"
    (tmp_path / "dump.log").write_text("(00.01) Warn (criu/x.c:1): nothing\n")
    assert criu.why(str(tmp_path / "dump.log")) == "no reason is in its log"


def test_the_variable_names_criu_before_the_search_path_does(tmp_path):
    for name in ("criu", "other"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    assert find({"PATH": str(tmp_path)}) == str(tmp_path / "criu")
    named = {"PATH": str(tmp_path), "YOD_CRIU": str(tmp_path / "other")}
    assert find(named) == str(tmp_path / "other")
    assert find({"PATH": str(tmp_path), "YOD_CRIU": "/nowhere/criu"}) == ""


def test_what_writes_ranks_down_is_chosen_by_name():
    given = {"--checkpoint-dir": ["d"], "--checkpoint-by": ["criu"]}
    found = chosen(given)
    assert found is not None
    assert found.backend is Backend.CRIU
    with pytest.raises(UsageError, match="--checkpoint-by dmtcp: one of signal, criu"):
        chosen({**given, "--checkpoint-by": ["dmtcp"]})
    with pytest.raises(UsageError, match="--checkpoint-signal: only with --checkpoint-by signal"):
        chosen({**given, "--checkpoint-signal": ["USR2"]})


def test_the_doctor_says_what_keeps_a_host_from_writing_programs_down(tmp_path):
    environment = {"PATH": str(tmp_path), "YOD_CRIU": "/nowhere/criu"}
    (found,) = [each for each in findings(environment) if each.subject == "checkpoints"]
    assert found.text.startswith("by signal; not by criu: there is no criu here: install CRIU 4.1")


def test_a_criu_that_does_not_work_here_gives_its_reason(tmp_path, monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 0)
    program = tmp_path / "criu"
    program.write_text(
        "#!/bin/sh\necho 'Error (criu/kerndat.c:9): Kernel is too new' >&2\nexit 1\n"
    )
    program.chmod(0o755)
    assert criu.why_not(str(program)) == f"{program} check: Kernel is too new"
