"""The exit status of Cplant's yod: 0, 1 when ranks have failed, 2 when none was let go."""

from __future__ import annotations

import pytest

from native.errors import UsageError
from yod.launch.closing import command_status
from yod.launch.phases import Phase
from yod.launch.report import Report
from yod.plan.cplant import check
from yod.plan.plan import Options

RAN = (Phase.FORMING, Phase.RUNNING)
CPLANT = Options(ends_as_cplant=True)


def ended(status: int, interrupted_by: int = 0) -> Report:
    report = Report(("a.out",), (1,))
    report.exit_status, report.interrupted_by = status, interrupted_by
    return report


@pytest.mark.parametrize(
    ("status", "phases", "expected"),
    [
        (0, RAN, 0),
        (3, RAN, 1),
        (139, RAN, 1),
        (125, RAN, 1),
        (125, (Phase.FORMING,), 2),
        (127, (), 2),
    ],
)
def test_the_status_says_whether_ranks_were_let_go(status, phases, expected):
    assert command_status(CPLANT, ended(status), phases) == expected
    assert command_status(Options(), ended(status), phases) == status


def test_an_interrupted_yod_does_not_die_of_the_signal():
    assert command_status(CPLANT, ended(130, 2), RAN) == 1
    assert command_status(Options(), ended(130, 2), RAN) == -2


def test_no_other_yods_status_is_known():
    check("cplant")
    with pytest.raises(UsageError, match="--exit slurm: only cplant is known"):
        check("slurm")
