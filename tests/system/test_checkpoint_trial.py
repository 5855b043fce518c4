"""Checkpoints: a trial says on the nodes what would be in the way, and changes nothing."""

from __future__ import annotations

import pytest

from tests.support.partition import finish
from tests.system.test_checkpoint import Study

pytestmark = pytest.mark.warm


def test_a_trial_names_a_rank_without_a_handler_and_writes_nothing(embedded, tmp_path):
    study = Study(embedded, tmp_path)
    yod = study.start()
    done = study.ask("--check")
    assert (done.status, done.err) == (0, "")
    assert done.out.endswith(": a checkpoint can be made\n")
    assert list(study.kept.iterdir()) == []
    study.let(9)
    assert finish(yod).status == 0
    study.program.write_text(
        "import os, sys\nprint('job ' + os.environ['YOD_JOB_ID'] + '.', flush=True)\n"
        "print(f'rank at 2', flush=True)\nsys.stdin.read()\n"
    )
    yod = study.start(size=1)
    done = study.ask("--check")
    assert done.status == 1
    assert "no checkpoint: rank 0 does not handle SIGUSR1, which would end it" in done.err
    assert finish(yod).status == 0
