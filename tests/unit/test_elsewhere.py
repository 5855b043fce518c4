"""The table of options that other launchers have."""

import re

import pytest

from native.errors import UsageError
from native.options import expand
from yod import cli
from yod.elsewhere import TABLE, explain


@pytest.mark.parametrize("name", TABLE)
def test_an_option_of_another_launcher_is_refused_with_what_it_is_here(name):
    for word in {f"-{name}", f"--{name}"}:
        with pytest.raises(UsageError) as caught:
            expand([word, "2", "program"], cli.OPTIONS, explain)
        assert str(caught.value) == f"no option {word} here: {TABLE[name]}"


@pytest.mark.parametrize("text", sorted(set(TABLE.values())))
def test_the_options_that_a_text_names_are_there(text):
    ours = re.sub(r"\(.*?\)", "", text)  # in parentheses are other commands
    for word in re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", ours):
        expand([word, "2"], cli.OPTIONS)


@pytest.mark.parametrize(
    ("word", "name"),
    [("--ntask", "ntasks"), ("--nodeli", "nodelist"), ("--cpus-per", "cpus-per-task")],
)
def test_a_name_there_may_be_shortened_as_one_here(word, name):
    with pytest.raises(UsageError) as caught:
        expand([word, "2", "program"], cli.OPTIONS, explain)
    assert str(caught.value) == f"no option {word} here: {TABLE[name]}"


@pytest.mark.parametrize(
    "word", ["-O", "-Q", "-E", "-X", "--bcast", "--qos", "--preserve-env", "--disable-status"]
)
def test_an_option_of_srun_that_is_not_here_is_known(word):
    assert explain(word.lstrip("-"))


def test_what_nobody_has_is_not_in_the_table():
    assert explain("nonsense") == explain("") == ""
