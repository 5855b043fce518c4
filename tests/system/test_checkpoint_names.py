"""Checkpoints with files, or in directories, whose names are not UTF-8."""

from __future__ import annotations

import os

import pytest

from tests.support.partition import Partition, finish
from tests.system.test_checkpoint import PROGRAM, Study

NAME = b"caf\xe9"
IN_SHELL = r"$'caf\351'"
ODD = PROGRAM.replace("import os,", f"NAME = {NAME}.decode(errors='surrogateescape')\nimport os,")
ODD = ODD.replace('directory / "n"', "directory / NAME / NAME")
ODD = ODD.replace('saver.restart / "n"', "saver.restart / NAME / NAME")
ODD = ODD.replace("as directory:\n", "as directory:\n            (directory / NAME).mkdir()\n")


@pytest.fixture
def study(anywhere: Partition, tmp_path) -> Study:
    tmp_path.chmod(0o755)
    made = Study(anywhere, tmp_path)
    made.program.write_text(ODD)
    return made


@pytest.mark.parametrize("is_kept_first", [False, True])
@pytest.mark.warm
def test_names_that_are_no_utf8_are_kept_and_compared(study, tmp_path, is_kept_first):
    (tmp_path / "local").mkdir()
    (tmp_path / "local").chmod(0o777)
    options = ("--checkpoint-local", str(tmp_path / "local")) if is_kept_first else ()
    yod = study.start(*options)
    done = study.ask("--kill")
    assert (done.status, done.err) == (0, "")
    assert finish(yod).status == 75
    study.let(9)
    again = study.partition.yod("--restart", str(study.kept))
    assert (again.status, again.out.count(" begins at 2\n")) == (0, 2)
    own = os.fsencode(study.kept / "checkpoint.1" / "rank.1")
    with open(os.path.join(own, NAME, NAME), "ab") as file:
        file.write(b"1")
    changed = study.partition.yod("--restart", str(study.kept / "checkpoint.1"))
    assert changed.status == 125
    assert f"/rank.1/{IN_SHELL[2:-1]}" in changed.err and "changed since" in changed.err


@pytest.mark.warm
def test_the_directory_of_checkpoints_may_have_such_a_name(study, tmp_path):
    study.kept = tmp_path / os.fsdecode(NAME)
    yod = study.start()
    done = study.ask("--kill")
    assert (done.status, done.err) == (0, "")
    assert rf"{IN_SHELL[2:-1]}/checkpoint.1" in done.out
    assert finish(yod).status == 75
    study.let(9)
    again = study.partition.yod("--restart", str(study.kept))
    assert (again.status, again.out.count(" begins at 2\n")) == (0, 2)
