"""The manifest of a site's hooks: what it says, and what is wrong with one."""

from __future__ import annotations

import os

import pytest

from native.errors import UsageError
from native.hooks import TIMEOUT_S, Hook, Hooks, Point, SiteOption, demand_in_time, parse
from native.host import hookfile

WHOLE = """
[[hook]]
name = "scratch"
program = "/etc/yod/scratch"
points = ["prolog", "epilog"]
timeout_s = 2.5

[[hook]]
name = "net"
program = "/etc/yod/net"
points = ["step_network", "epilog"]

[[option]]
name = "scratch-size"
argument = "SIZE"
help = "scratch on each node"

[[option]]
name = "keep"
"""


def hook(**fields: object) -> str:
    """A manifest with one hook, of which some lines are others."""
    lines = {"name": '"a1"', "program": '"/bin/a"', "points": '["prolog"]'} | fields
    return "[[hook]]\n" + "\n".join(f"{name} = {value}" for name, value in lines.items() if value)


def test_a_manifest_names_hooks_and_options():
    both = (Point.PROLOG, Point.EPILOG)
    assert parse(WHOLE, "/h.toml") == Hooks(
        "/h.toml",
        (
            Hook("scratch", "/etc/yod/scratch", both, 2.5),
            Hook("net", "/etc/yod/net", (Point.STEP_NETWORK, Point.EPILOG), TIMEOUT_S),
        ),
        (SiteOption("scratch-size", "SIZE", "scratch on each node"), SiteOption("keep")),
    )
    assert parse("", "/h.toml") == Hooks("/h.toml")


def test_hooks_run_as_they_are_written_and_what_undoes_the_other_way_round():
    found = parse(WHOLE, "/h.toml")
    assert [each.name for each in found.at(Point.PROLOG)] == ["scratch"]
    assert [each.name for each in found.at(Point.EPILOG)] == ["net", "scratch"]
    assert found.at(Point.RANK_PROLOG) == ()


def test_an_option_becomes_a_variable():
    assert SiteOption("scratch-size").variable == "YOD_OPTION_SCRATCH_SIZE"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[hook]\n", "(at line 1, column "),
        ("a = 1\nb = [\n", "(at end of document)"),
        ("[[hooks]]\n", "no hooks here; known are [[hook]] and [[option]]"),
        ("[hook]\n", "hook must be written as [[hook]]"),
        (hook(name='"A"'), "[[hook]] 1 (A): name must be 2 to 31 small letters, digits"),
        (hook(name="3"), "[[hook]] 1: name must be"),
        (hook(program=""), "[[hook]] 1 (a1): program must be an absolute path"),
        (hook(program='"bin/a"'), "[[hook]] 1 (a1): program must be an absolute path"),
        (hook(points="[]"), '[[hook]] 1 (a1): points must be a list, as in ["prolog", "epilog"]'),
        (hook(points='["prologue"]'), "[[hook]] 1 (a1): no point prologue; known are prolog, step"),
        (hook(points='"prolog"'), "[[hook]] 1 (a1): points must be a list"),
        (hook(points="[[1]]"), "[[hook]] 1 (a1): no point [1]; known are"),
        (hook(timeout_s="0"), "[[hook]] 1 (a1): timeout_s must be a number of seconds above 0"),
        (hook(timeout_s="inf"), "[[hook]] 1 (a1): timeout_s must be a number"),
        (hook(timeout_s="true"), "[[hook]] 1 (a1): timeout_s must be a number"),
        (
            hook(timeout="3"),
            "[[hook]] 1 (a1): no timeout here; known are name, program, points, ti",
        ),
        (f"{hook()}\n{hook()}", "[[hook]] 2 (a1): there are two of this name"),
        (hook() * 0 + "[[hook]]\n" * 33, "[[hook]]: there are 33, at most 32 may be"),
        ('[[option]]\nname = "--keep"', "[[option]] 1 (--keep): name must be"),
        (
            '[[option]]\nname = "keep"\nhelp = "a\\nb"',
            "[[option]] 1 (keep): argument and help must",
        ),
        (
            '[[option]]\nname = "keep"\nvalue = 1',
            "[[option]] 1 (keep): no value here; known are na",
        ),
    ],
)
def test_a_mistake_is_one_line_with_the_file_and_the_place(text, said):
    with pytest.raises(UsageError) as raised:
        parse(text, "/etc/h.toml")
    line = str(raised.value)
    assert line.startswith("/etc/h.toml: ")
    assert said in line
    assert "\n" not in line


def test_hooks_for_which_a_launch_would_not_wait_are_refused_with_the_number():
    found = parse(WHOLE, "/h.toml")  # 2.5 + 5 s before, 5 + 2.5 s after
    demand_in_time(found, phase_s=7.6, end_s=7.6)
    before = (
        r"^/h.toml: the hooks before the start of a job may take 7.5 s together \(timeout_s\): "
    )
    with pytest.raises(UsageError, match=before + r"must be below 7.5 \(YOD_PHASE_S\)$"):
        demand_in_time(found, phase_s=7.5, end_s=10.0)
    with pytest.raises(UsageError, match=r"after the end .* 7.5 s .* below 7 \(YOD_END_S\)$"):
        demand_in_time(found, phase_s=30.0, end_s=7.0)


def test_without_a_file_there_are_no_hooks_and_one_that_is_named_must_be_there(tmp_path):
    missing = str(tmp_path / "none.toml")
    with pytest.raises(UsageError, match=rf"^YOD_HOOKS: there is no file {missing}$"):
        hookfile.read({"YOD_HOOKS": missing})
    path = tmp_path / "hooks.toml"
    path.write_bytes(b"\xff")
    with pytest.raises(UsageError, match="not UTF-8"):
        hookfile.read({"YOD_HOOKS": str(path)})
    path.write_text("#" * (hookfile.BYTES_MAX + 1))
    with pytest.raises(UsageError, match="longer than 1048576 bytes"):
        hookfile.read({"YOD_HOOKS": str(path)})
    with pytest.raises(UsageError, match="Is a directory"):
        hookfile.read({"YOD_HOOKS": str(tmp_path)})


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "program"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def found_with(program, tmp_path) -> Hooks:
    manifest = tmp_path / "hooks.toml"
    manifest.write_text(hook(program=f'"{program}"'))
    found = hookfile.read({"YOD_HOOKS": str(manifest)})
    assert found is not None
    return found


def test_a_program_must_be_there_and_executable(program, tmp_path):
    hookfile.demand_programs(found_with(program, tmp_path), is_for_root=False)
    program.chmod(0o644)
    with pytest.raises(UsageError, match=r"hook a1: .*/program: not an executable file$"):
        hookfile.demand_programs(found_with(program, tmp_path), is_for_root=False)
    with pytest.raises(UsageError, match=r"hook a1: .*: not an executable file$"):
        hookfile.demand_programs(found_with(tmp_path, tmp_path), is_for_root=False)
    program.unlink()
    with pytest.raises(UsageError, match=r"hook a1: .*/program: No such file or directory$"):
        hookfile.demand_programs(found_with(program, tmp_path), is_for_root=False)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs files of root's")
def test_what_root_runs_nobody_else_may_change_or_replace(program, tmp_path):
    found = found_with(program, tmp_path)
    hookfile.demand_programs(found, is_for_root=True)
    for path, wrong in ((program, 0o775), (tmp_path, 0o777), (tmp_path / "hooks.toml", 0o646)):
        right = path.stat().st_mode & 0o7777
        path.chmod(wrong)
        with pytest.raises(UsageError, match=f"{path} must be root's, and no other may write it"):
            hookfile.demand_programs(found, is_for_root=True)
        hookfile.demand_programs(found, is_for_root=False)
        path.chmod(right)
    os.chown(program, 65534, -1)
    with pytest.raises(UsageError, match="program must be root's"):
        hookfile.demand_programs(found, is_for_root=True)
