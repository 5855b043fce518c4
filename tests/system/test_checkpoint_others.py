"""A checkpoint and another user than the one whose job was written down."""

from __future__ import annotations

import pytest

from tests.support.nobody import yod_as_nobody
from tests.system.test_checkpoint_files import Study

pytestmark = pytest.mark.usefixtures("needs_root")

SAVES = "trap ': >$YOD_CHECKPOINT_DIR/saved' USR1; while [ ! -e $0 ]; do echo x; sleep 0.05; done"


def test_another_user_goes_on_only_where_they_may_keep_further_ones_and_in_files_of_theirs(
    embedded, tmp_path, theirs
):
    study = Study(embedded, tmp_path)
    study.killed_behind_one(*study.options(), "/bin/sh", "-c", SAVES, str(study.stop))
    before = study.file(0).read_bytes()
    study.stop.touch()
    done = yod_as_nobody(embedded, theirs, "--restart", str(study.kept))
    assert done.status == 125
    assert done.err.endswith(f"--checkpoint-dir {study.kept}: you cannot write there\n")
    words = ("--restart", str(study.kept), "--checkpoint-dir", str(theirs / "kept"))
    done = yod_as_nobody(embedded, theirs, *words)  # the output is another's
    assert done.status != 0
    assert f"open {tmp_path}/out." in done.err  # of either rank
    assert "permission denied" in done.err
    assert study.file(0).read_bytes() == before
