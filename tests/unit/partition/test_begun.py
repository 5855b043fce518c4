"""What a broker is told of its script."""

import pytest

from partition.batch.begun import Begun, Failed, begun_of


def test_a_script_that_runs():
    begun = begun_of(["began", "41", "0", "4", "3", "/a key", "0"])
    assert begun == Begun(41, 0, 4, 3, "/a key")
    assert begun.entrance(b"k" * 32).key_file == "/a key"


def test_a_script_that_is_held_waits_at_a_descriptor():
    assert not begun_of(["began", "41", "0", "4", "3", "/k", "0"]).is_held
    assert begun_of(["began", "41", "0", "4", "3", "/k", "7"]) == Begun(41, 0, 4, 3, "/k", 7)
    assert Begun(41, 0, 4, 3, "/k", 7).is_held


def test_one_that_could_not_be_executed_is_no_process_any_more():
    assert begun_of(["began", "41", "2", "4", "3", "/k", "0"]) == Begun(0, 2, 4, 3, "/k")


def test_a_place_that_could_not_be_made():
    assert begun_of(["failed", "out: Permission denied"]) == Failed("out: Permission denied")


@pytest.mark.parametrize("words", [[], ["began"], ["began", "x", *"043k0"], ["?", "a"]])
def test_anything_else_is_refused(words):
    with pytest.raises(ValueError, match=r"not what|invalid literal"):
        begun_of(words)
