"""The file of a pilot that says how large its tasks are."""

from __future__ import annotations

import pytest

from yod.pilot.agent.reconfig import Reconfig
from yod.pilot.model.description import TaskDescription


@pytest.fixture
def path(tmp_path):
    return tmp_path / "sizes.json"


@pytest.fixture
def reconfig(path):
    return Reconfig(str(path.parent), path.name)


def changed(reconfig, **entries):
    task = TaskDescription({"executable": "a", **entries})
    reconfig.look()
    return reconfig.change(task), task.value("ranks"), task.value("cores_per_rank")


def test_tasks_have_the_sizes_that_it_has_when_they_come(reconfig, path):
    assert changed(reconfig, ranks=3) == ("", 3, 1)  # it need not be there
    path.write_text('{"ranks": 2}')
    assert changed(reconfig, ranks=3) == ("", 2, 1)
    path.write_text('{"cores_per_rank": 4}')
    assert changed(reconfig, ranks=3) == ("", 3, 4)
    path.unlink()
    assert changed(reconfig, ranks=3) == ("", 3, 1)


def test_tasks_with_chosen_slots_and_pilots_without_a_file_are_left_alone(reconfig, path):
    path.write_text('{"ranks": 2}')
    assert changed(reconfig, slots=[{"cores": [0]}]) == ("", 1, 1)
    assert changed(Reconfig(str(path.parent), "")) == ("", 1, 1)


@pytest.mark.parametrize(
    "text, why",
    [
        ("{", "Input data was truncated"),
        ('{"rank": 2}', "there is no key 'rank'; known are ranks, cores_per_rank"),
        ('{"ranks": "2"}', "Expected `int`, got `str`"),
        ('{"ranks": 0}', "'ranks' is 0, which is less than 1"),
    ],
)
def test_a_wrong_one_fails_the_tasks_that_come_with_its_key_until_it_is_right(
    reconfig, path, text, why
):
    path.write_text(text)
    failure, *_ = changed(reconfig)
    assert failure.startswith(f"'reconfig_src': {path}: ")
    assert why in failure
    path.write_text('{"ranks": 2}')
    assert changed(reconfig) == ("", 2, 1)


def test_one_that_cannot_be_read_is_named(reconfig, path):
    path.mkdir()
    failure, *_ = changed(reconfig)
    assert failure == f"'reconfig_src': {path}: Is a directory"
