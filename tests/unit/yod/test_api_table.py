"""Each option of ``yod`` is an argument of ``yod.api`` that means the same, or has a reason."""

from __future__ import annotations

import inspect
import os
import re
from pathlib import Path

import pytest

from yod import cli, frontend
from yod.guest.choices import Choices
from yod.guest.request import request
from yod.guest.table import ARGUMENTS, NONE, OF_PROGRAMS
from yod.host import own

PAGE = Path(__file__).parents[3] / "docs/api.md"

# option -> its value for the command, and for a program; None: it has none.
SAMPLES: dict[str, tuple[str | None, object]] = {
    "-sz": ("3", 3),
    "-list": ("0", [0]),
    "-N": ("1", 1),
    "--ranks-per-node": ("2", 2),
    "--cores-per-rank": ("2", 2),
    "--mem": ("64M", "64M"),
    "--mem-per-rank": ("32M", "32M"),
    "--gpus-per-node": ("2", 2),
    "--gpus-per-rank": ("1", 1),
    "--ranks-per-socket": ("2", 2),
    "--sockets-per-node": ("1", 1),
    "--ranks-per-numa": ("1", 1),
    "--ranks-per-core": ("1", 1),
    "--bind": ("core", "core"),
    "--threads-per-core": ("1", 1),
    "--distribution": ("cyclic", "cyclic"),
    "-strace": ("/tmp", "/tmp"),
    "--stall": ("0:30", 30),
    "--report": (None, None),
    "--trace": (None, None),
    "--stdin": ("0,4..7", [0, 4, 5, 6, 7]),
    "--as": ("slurm,torch", "slurm,torch"),
    "-time": ("0:30", 30),
    "--grace": ("0:30", 30),
    "-o": ("out.%t", "out.%t"),
    "-e": ("err.%t", "err.%t"),
    "--mpi": ("none", "none"),
    "--wait": ("9", 9),
    "--constraint": ("a&b", "a&b"),
    "-queue": ("short", "short"),
    "-account": ("physics", "physics"),
    "--exclude": ("3,n9", "3,n9"),
    "--retries": ("3", 3),
    "--switches": ("2@30:00", "2@30:00"),
    "--arity": ("4", 4),
}
# What is said together with an option.
WITH = {
    "-straceoptions": ({"-strace": ["/tmp"], "-straceoptions": ["-f -tt"]}, ["-f", "-tt"]),
    "-stracenodes": ({"-strace": ["/tmp"], "-stracenodes": ["0,2"]}, [0, 2]),
    "-signal": ({"-time": ["1:00"], "-signal": ["USR1@9"]}, "USR1@9"),
}
ELSEWHERE = {  # by tests of their own
    *(
        "--libpmix",
        "--chdir",
        "--partition",
        "--after",
        "--overlap",
        "--remote-io",
        "--report",
        "--trace",
    ),
    *("--tee", "--checkpoint-dir", "--checkpoint-by", "--checkpoint-every", "--checkpoint-on"),
    *("--checkpoint-signal", "--checkpoint-grace", "--checkpoint-keep", "--restart"),
    "--checkpoint-local",
}


def spelled() -> list[str]:
    return [option.spellings[0] for option in cli.OPTIONS]


def test_every_option_is_an_argument_or_has_a_reason_to_be_none():
    assert sorted([*ARGUMENTS, *NONE]) == sorted(spelled())


def test_every_argument_is_an_option_or_the_programs_own():
    taken = set(inspect.signature(request).parameters) | set(Choices.__annotations__)
    own_ones = {"command", "has_input", "has_own_input", "rare"}
    assert sorted([*ARGUMENTS.values(), *OF_PROGRAMS]) == sorted(taken - own_ones)


def test_the_page_tells_of_every_argument_and_every_option_that_is_none():
    text = PAGE.read_text()
    said = set(re.findall(r"`([^`\n]+)`", text))
    assert {*ARGUMENTS.values(), *OF_PROGRAMS} <= said
    reasons = text.partition("These options of `yod` are no arguments:")[2].partition("\n\nRanks")[
        0
    ]
    assert set(re.findall(r"`(-[^`]+)`", reasons)) == NONE


def chosen_by_command(given: dict[str, list[str]]):
    words = own.invocation(("yod", "true"))
    given = {"--partition": ["embedded"], "--no-stdin": [""], "--dry-run": [""], **given}
    if "--stdin" in given or "-stracenodes" in given:
        given["-sz"] = ["8"]
    if "--stdin" in given:
        del given["--no-stdin"]
    plan = frontend.prepare(given, ["true"], words).plan
    return plan.specs, plan.options


def chosen_by_program(**choices):
    has_input = "stdin_ranks" in choices
    if has_input or "strace_ranks" in choices:
        choices["size"] = 8
    asked = request("true", has_input=has_input, partition="embedded", **choices)
    return tuple(member.spec for member in asked.members), asked.options


@pytest.mark.parametrize("option", [each for each in spelled() if each in ARGUMENTS])
def test_an_argument_means_what_its_option_means(option, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for name in ("PBS_ENVIRONMENT", "YODRETRYCOUNT"):
        monkeypatch.delenv(name, raising=False)
    if option in ELSEWHERE:
        return
    argument = ARGUMENTS[option]
    if option in WITH:
        given, value = WITH[option]
        choices = {argument: value}
        choices |= {"time_s": 60} if option == "-signal" else {"strace": "/tmp"}
    else:
        text, value = SAMPLES.get(option, ("", True))
        given, choices = {option: [text or ""]}, {argument: value}
        if option == "-o":
            choices[argument] = Path(os.fspath(value))
    specs, options = chosen_by_command(given)
    assert chosen_by_program(**choices) == (specs, options)
