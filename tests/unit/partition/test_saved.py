"""A script that can be written down: what is handed in with it, and how it finds its allocation."""

from __future__ import annotations

import os

import pytest

from native import allocated
from native.errors import PartitionError, UsageError
from partition.checkpoint import requeued
from partition.find import discover
from partition.submit import saved


def chosen(**given: str) -> dict[str, str | None]:
    return {"checkpoints": "kept", "constraint": None, "requeue_on": None, **given}


def test_a_user_other_than_root_is_refused_and_told_what_can_be_done(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UsageError) as refused:
        saved.prepare(chosen())
    assert str(refused.value) == (
        "--checkpoint-dir: only scripts of root are written down as a whole, and you are uid 1000; "
        "yod-cr has the steps of a script written down"
    )


@pytest.mark.parametrize(
    ("given", "constraint", "requeue_on"),
    [
        ({}, "criu", "75"),
        ({"constraint": "ib|gpu", "requeue_on": "9"}, "(ib|gpu)&criu", "9"),
    ],
)
def test_its_job_is_on_nodes_with_criu_and_waits_again(monkeypatch, given, constraint, requeue_on):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.delenv("YOD_CRIU", raising=False)
    options = chosen(**given)
    saved.prepare(options)
    assert (options["constraint"], options["requeue_on"]) == (constraint, requeue_on)


def test_a_directory_without_a_name_is_refused():
    with pytest.raises(UsageError, match="names no directory"):
        saved.prepare(chosen(checkpoints=""))


def test_a_script_finds_its_allocation_by_a_file(tmp_path):
    environment = allocated.saved_variables(str(tmp_path)) | {"YOD_ALLOCATION": "17"}
    (tmp_path / "place").write_text("10.0.0.1:7117\n/keys/17@here.4711\n")
    where = discover.find("", environment)
    assert (where.address, where.key_file) == ("10.0.0.1:7117", "/keys/17@here.4711")
    assert where.allocation == "17"


@pytest.mark.parametrize("text", [None, "", "10.0.0.1:7117\n"])
def test_a_file_without_an_allocation_is_named(tmp_path, text):
    path = tmp_path / "place"
    if text is not None:
        path.write_text(text)
    with pytest.raises(PartitionError) as refused:
        discover.find("", {"YOD_PARTITION": f"file:{path}"})
    why = "No such file or directory" if text is None else "no address and key file"
    assert str(refused.value) == f"YOD_PARTITION file:{path}: {why}"


def test_a_step_without_a_checkpoint_has_no_last_one(tmp_path):
    assert requeued.last_path(str(tmp_path / "none"), "17", ["a.out"]) == ""
    assert requeued.last_path(str(tmp_path), "17", ["a.out"]) == ""
