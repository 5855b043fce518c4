"""The keys of a study's configuration, each with its default, and what is wrong with a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ensemble import config
from native.errors import UsageError

ROOT = Path(__file__).parents[3]
LEAST = {"server_executable": "s", "client_executable": "c"}


def read(**keys):
    return config.read(json.dumps({"launcher_config": {**LEAST, **keys}}).encode(), "f")


def test_every_key_has_a_meaning_and_a_default():
    assert list(config.KEYS) == list(config.Config.__struct_fields__)
    text = config.options_text()
    for name, key in config.KEYS.items():
        assert f"{name} = " in text and key.meaning in text


@pytest.mark.parametrize("name", config.KEYS)
def test_the_page_has_every_key(name):
    assert f"| `{name}` " in (ROOT / "docs" / "ensemble.md").read_text()


def test_the_defaults_are_those_of_the_reference():
    found = read()
    assert (found.timer_s, found.update_s, found.server_timeout_s) == (5.0, 30.0, 10.0)
    assert (found.job_limit, found.http_port, found.protocol) == (1000, 0, "auto")
    assert (found.fault_tolerance, found.load_from_checkpoint, found.std_output) == (
        True,
        False,
        True,
    )
    assert (found.container_client_size, found.besteffort_allocation_frequency) == (1, 1)


def test_one_delay_sets_the_timer_and_the_update_interval():
    found = read(timer_delay=2)
    assert (found.timer_s, found.update_s, found.server_timeout_s) == (2.0, 2.0, 4.0)


def test_dictionaries_of_others_are_left_alone():
    text = json.dumps({"launcher_config": LEAST, "study": {"x": [1]}, "server_config": 5})
    assert config.read(text.encode(), "f").server_executable == ("s",)


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({"job_limits": 3}, "f: launcher_config: job_limits: no such key; job_limit?"),
        ({"xyz": 3}, "xyz: no such key; `yod-ensemble --print-options` prints all"),
        ({"job_limit": "3"}, "job_limit: must be a whole number"),
        ({"job_limit": True}, "job_limit: must be a whole number"),
        ({"job_limit": 2.5}, "job_limit: must be a whole number"),
        ({"job_limit": 0}, "job_limit: 0: must be from 1 to"),
        ({"timer_delay": -1}, "timer_delay: -1: must be from 0.01"),
        ({"timer_delay": None}, "timer_delay: must be a number"),
        ({"fault_tolerance": 1}, "fault_tolerance: must be true or false"),
        ({"scheduler_arg": [1]}, "scheduler_arg: must be a list of words"),
        ({"scheduler_arg": ["a\nb"]}, "has a NUL character or a new line"),
        ({"protocol": "udp"}, "protocol: must be auto, sctp or tcp"),
        ({"http_token": "a b"}, "http_token: must be of letters, digits and ._~-"),
        ({"bind": 3}, "bind: must be text"),
        ({"server_executable": ""}, "server_executable: must be given"),
        ({"server_executable": [""]}, "server_executable: must be given"),
    ],
)
def test_a_mistake_is_told_with_its_key(keys, text):
    with pytest.raises(UsageError) as caught:
        read(**keys)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"{", "f: no JSON"),
        (b"[]", "a dictionary is needed"),
        (b"{}", "no dictionary launcher_config"),
        (b'{"launcher_config": 3}', "must be a dictionary"),
        (b'{"launcher_config": {}}', "server_executable: must be given"),
    ],
)
def test_a_file_that_is_no_configuration_is_one_line(text, said):
    with pytest.raises(UsageError) as caught:
        config.read(text, "f")
    assert said in str(caught.value) and "\n" not in str(caught.value)
