"""Daemons read a plain command line by themselves; click, which reads all others, agrees."""

from __future__ import annotations

import pytest

import allocator.command.cli
import allocator.command.daemon
import allocator.command.main
import pct.command.cli
import pct.command.daemon
import pct.command.main
from native.errors import UsageError

DAEMONS = {
    "bebopd": (allocator.command, allocator.command.main._run),
    "pct": (pct.command, pct.command.main._run),
}
DEFAULTS = {name: each.daemon.run.__kwdefaults__ for name, (each, _) in DAEMONS.items()}
TEXTS = {str: "text", int: "3", None: ""}
SOME = [
    (daemon, spelling)
    for daemon, (package, _) in DAEMONS.items()
    for spelling in package.main.PLAIN
]


@pytest.fixture
def ran(monkeypatch):
    """What the daemons were run with."""
    seen = []

    def run(*limits, **values):
        seen.append(values)
        return 0

    for package, _ in DAEMONS.values():
        monkeypatch.setattr(package.daemon, "run", run)
    monkeypatch.delenv("YOD_CGROUPS", raising=False)
    return seen


def words_of(daemon, spelling):
    read = DAEMONS[daemon][0].main.PLAIN[spelling].read
    return [spelling] if read is None else [spelling, TEXTS.get(read, "3")]


@pytest.mark.parametrize(("daemon", "spelling"), SOME)
def test_a_plain_option_means_what_it_means_to_click(ran, daemon, spelling):
    package, run = DAEMONS[daemon]
    words = words_of(daemon, spelling)
    run(words)
    package.cli.run(words)
    plain, of_click = ran
    assert {**DEFAULTS[daemon], **plain} == of_click
    assert of_click != DEFAULTS[daemon]


@pytest.mark.parametrize("daemon", list(DAEMONS))
def test_without_options_all_values_are_those_of_click(ran, daemon):
    package, run = DAEMONS[daemon]
    run([])
    package.cli.run([])
    assert {**DEFAULTS[daemon], **ran[0]} == ran[1] == DEFAULTS[daemon]


@pytest.mark.parametrize(
    ("daemon", "words", "text"),
    [
        ("pct", ["--node", "x"], "x"),
        ("pct", ["--bebopd"], "--bebopd needs a value"),
        ("pct", ["--nothing"], "--nothing"),
        ("pct", ["word"], "word"),
        ("bebopd", ["--expect", "-1"], "-1"),
        ("bebopd", ["--batch", "lsf"], "lsf"),
    ],
)
def test_what_is_wrong_is_told_by_click(ran, daemon, words, text):
    with pytest.raises(UsageError, match=text):
        DAEMONS[daemon][1](words)
    assert not ran


def test_shortened_names_and_several_stores_are_read_too(ran):
    DAEMONS["pct"][1](["--bebo", "h:1", "--store", "a", "--store", "b"])
    assert (ran[0]["bebopd"], ran[0]["store"]) == ("h:1", ("a", "b"))
