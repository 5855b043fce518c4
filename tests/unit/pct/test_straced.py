"""Ranks that run under strace: what a node starts, and what the options mean."""

from __future__ import annotations

import pytest

from native.errors import UsageError
from native.wire import keeper
from native.wire.group import STRACE_OPTIONS_MAX, StackRules, Strace
from pct.job.rules.straced import with_strace
from tests.unit.pct.job_of import JOB_ID, credential, load_message
from yod.plan.input import ALL
from yod.plan.plan import strace_of

PROGRAM = keeper.ProgramSpec(b"/store/1", (b"./a.out", b"-x"), b"/home")
RANKS = tuple(keeper.RankSpec(rank, 0, (), False, False) for rank in range(3))
STRACE = Strace(b"/tmp/traces", ((0, 0), (2, 5)), (b"-f", b"-tt"))


def test_a_rank_that_is_traced_has_a_program_of_its_own_and_the_others_theirs():
    message = load_message(1, 0, 3, stacks=StackRules(strace=STRACE))
    programs, ranks = with_strace(RANKS, (PROGRAM,), message, credential())
    assert [rank.program for rank in ranks] == [1, 0, 2]
    assert programs[0] == PROGRAM
    for program, rank in ((programs[1], 0), (programs[2], 2)):
        path = b"/tmp/traces/strace.%d.%d" % (JOB_ID, rank)
        assert program.argv == (
            *(b"env", b"strace", b"-DD", b"-o", path, b"-f", b"-tt"),
            *(b"/store/1", b"-x"),
        )
        assert (program.path, program.cwd) == (b"/usr/bin/env", b"/home")
        assert program.hold is keeper.Hold.WITH_TRACER


def test_rank_0_is_traced_unless_others_are_named():
    assert strace_of({"-sz": ["3"]}) is None
    assert strace_of({"-strace": ["/tmp"]}) == Strace(b"/tmp", ((0, 0),))
    given = {"-strace": ["d"], "-straceoptions": ["-f  -e trace=file"], "-stracenodes": ["1,3..5"]}
    assert strace_of(given) == Strace(b"d", ((1, 1), (3, 5)), (b"-f", b"-e", b"trace=file"))
    everybody = strace_of({"-strace": ["d"], "-stracenodes": ["all"]})
    assert everybody is not None
    assert everybody.ranks == ALL


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"-straceoptions": ["-f"]}, "-straceoptions: only with -strace DIR"),
        ({"-stracenodes": ["1"]}, "-stracenodes: only with -strace DIR"),
        ({"-strace": [""]}, "-strace: a directory has 1 to 4096 bytes"),
        ({"-strace": ["d"], "-bt": [""]}, "-strace and -bt exclude each other"),
        ({"-strace": ["d"], "-attach": [""]}, "-strace and -attach exclude each other"),
        (
            {"-strace": ["d"], "-stracenodes": ["none"]},
            "-stracenodes none: all, or ranks, as in 0,4..7",
        ),
        (
            {"-strace": ["d"], "-straceoptions": ["-f " * (STRACE_OPTIONS_MAX + 1)]},
            "-straceoptions: 65 words, at most 64",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_with_the_option(given, text):
    with pytest.raises(UsageError, match=f"^{text}"):
        strace_of(given)
