"""Limits: one place, each with a meaning, set by the environment, checked."""

from pathlib import Path

import pytest

from native import limits
from native.errors import UsageError
from native.limits import Limits


def test_every_limit_has_a_meaning_and_a_unit_in_its_name():
    assert set(limits.MEANINGS) == set(Limits.__struct_fields__)
    for name in limits.MEANINGS:
        assert name.rpartition("_")[2] in ("s", "bytes", "count", "percent")


def test_every_limit_is_in_force_somewhere():
    """One of them did nothing."""
    root = Path(limits.__file__).parents[1]
    read = [
        path.read_text()
        for package in ("allocator", "native", "partition", "pct", "yod")
        for path in (root / package).rglob("*.py")
        if path != Path(limits.__file__)
    ]
    idle = [name for name in limits.MEANINGS if not any(f"limits.{name}" in text for text in read)]
    idle = [name for name in idle if not any(f"in_force.{name}" in text for text in read)]
    own = Path(limits.__file__).read_text()
    idle = [name for name in idle if f"self.{name}" not in own]
    assert not idle


def test_without_an_environment_the_defaults_are_in_force():
    assert limits.load({}) == Limits()


@pytest.mark.parametrize("name", limits.MEANINGS)
def test_every_default_may_be_given_by_its_variable(name):
    value = getattr(Limits(), name)
    loaded = limits.load({limits.variable(name): str(value)})
    assert loaded == Limits()
    assert type(getattr(loaded, name)) is type(value)


def test_a_variable_changes_its_limit_only():
    assert limits.load({"YOD_KILL_DELAY_S": "0.5", "YOD_ARITY_COUNT": "16", "YOD_OTHER": "x"}) == (
        Limits(kill_delay_s=0.5, arity_count=16)
    )


@pytest.mark.parametrize(
    ("variable", "text", "message"),
    [
        ("YOD_PHASE_S", "soon", "not a number"),
        ("YOD_PHASE_S", "", "not a number"),
        ("YOD_ARITY_COUNT", "2.5", "not a number"),
        ("YOD_PHASE_S", "nan", "must be from 0.001 to 1099511627776"),
        ("YOD_PHASE_S", "0", "must be from 0.001 to 1099511627776"),
        ("YOD_PENDING_S", "inf", "must be from 0 to 1099511627776"),
        ("YOD_PENDING_S", "-1", "must be from 0 to 1099511627776"),
        ("YOD_ARITY_COUNT", "0", "must be from 1 to 64"),
        ("YOD_ARITY_COUNT", "65", "must be from 1 to 64"),
        ("YOD_CHUNK_BYTES", "4095", "must be from 4096 to 4194304"),
        ("YOD_OUTPUT_WINDOW_BYTES", "65535", "must be from 65536 to 1073741824"),
        ("YOD_OUTPUT_WINDOW_BYTES", "1073741825", "must be from 65536 to 1073741824"),
        ("YOD_STORE_USER_PERCENT", "101", "must be from 1 to 100"),
        ("YOD_ARGUMENTS_INLINE_BYTES", "196609", "must be from 0 to 196608"),
    ],
)
def test_a_value_out_of_range_is_refused_with_its_variable(variable, text, message):
    with pytest.raises(UsageError) as caught:
        limits.load({variable: text})
    assert str(caught.value) == f"{variable}={text}: {message}"


def test_no_limit_lets_a_load_message_be_refused_for_its_numbers():
    """The limits that travel in a load message are within the message's ranges."""
    from native.wire import codec, load
    from tests.unit.pct.job_of import load_message

    names = {
        "chunk_bytes": "chunk_bytes",
        "output_window_bytes": "output_window_bytes",
        "arity_count": "arity",
        "phase_s": "deadline_s",
        "orphan_s": "orphan_s",
    }
    for name, field in names.items():
        for text in ("0", "0.001", "1", "4096", str(1 << 40), str(1 << 30), str(1 << 22)):
            try:
                value = getattr(limits.load({limits.variable(name): text}), name)
            except UsageError:
                continue
            message = load_message(1, **{field: value})
            assert isinstance(codec.decode(codec.encode(message)), load.Load), (name, text)
