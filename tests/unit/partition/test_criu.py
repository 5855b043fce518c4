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


def test_criu_is_tried_for_users_in_a_user_namespace_and_its_lack_is_named(tmp_path, monkeypatch):
    program = tmp_path / "criu"
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    init = tmp_path / "yod-init"
    init.write_text(f'#!/bin/sh\necho "$@" >{tmp_path}/words\nexit 0\n')
    init.chmod(0o755)
    monkeypatch.setattr(criu, "INIT", str(init))
    assert criu.why_not(str(program), for_users=True) == ""
    assert (tmp_path / "words").read_text() == f"try {program} check --unprivileged\n"
    init.write_text("#!/bin/sh\necho 'yod-init: cannot make a user namespace: no' >&2; exit 127\n")
    assert criu.why_not(str(program), for_users=True) == "cannot make a user namespace: no"


def test_file_capabilities_of_criu_are_named_with_the_remedy(monkeypatch):
    monkeypatch.setattr("os.getxattr", lambda path, name: b"capabilities")
    why = criu.why_not("/usr/sbin/criu", for_users=True)
    assert why.startswith("/usr/sbin/criu has file capabilities, which take those of user name")
    assert criu.remedy(why) == "setcap -r /usr/sbin/criu"
    assert criu.remedy("cannot make a user namespace: Operation not permitted") == ""


def test_the_doctor_tells_root_what_keeps_users_from_criu_and_how_it_goes_away(monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(criu, "version", lambda program: "4.2")
    monkeypatch.setattr(
        criu, "why_not", lambda program, for_users=False: "no user namespace" if for_users else ""
    )
    able, lacking = (each for each in findings({}) if each.subject == "checkpoints")
    assert able.text.startswith("by signal, and by criu 4.2")
    assert lacking.text == "not by criu for users other than root: no user namespace"
    assert lacking.remedy


def test_a_user_has_criu_run_in_the_namespaces_of_the_ranks_and_root_does_not(monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 0)
    words = criu.dump_command("/usr/sbin/criu", 4711, "images")
    assert words[:2] == ["/usr/sbin/criu", "dump"]
    assert "--unprivileged" not in words
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    words = criu.dump_command("/usr/sbin/criu", 4711, "images")
    assert words[:5] == [criu.INIT, "enter", "4711", "/usr/sbin/criu", "dump"]
    assert "--unprivileged" in words
