"""Launches of one program, whose files are read once for many."""

import os
from math import inf

import pytest
from msgspec.structs import replace

from native.errors import ProgramNotFoundError, UsageError
from native.wire.base import ENVIRONMENT_MAX
from yod.guest.again import HOLDS_S, Preparations
from yod.guest.request import request


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "program"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def asked(program, tmp_path, monkeypatch):
    monkeypatch.setenv("YOD_PARTITION", "embedded")
    return request([str(program)], has_input=False, cwd=str(tmp_path), wait_s=inf, size=1)


def with_variable(asked, value):
    environment = {**asked.invocation.environment, b"CLIENT": value}
    return replace(asked, invocation=replace(asked.invocation, environment=environment))


def plain(prepared):
    return replace(prepared, resolve_s=0.0)


def test_a_launch_with_other_variables_is_as_if_it_had_been_prepared_alone(asked):
    kept = Preparations(Clock())
    kept.prepare(with_variable(asked, b"1"), "client", ())
    second = with_variable(asked, b"2")
    found = kept.prepare(second, "client", ())
    assert plain(found) == plain(second.prepare())
    assert b"CLIENT=2" in found.plan.arguments.environment


def test_a_program_is_read_once_for_many_launches(asked, program):
    kept = Preparations(Clock())
    first = kept.prepare(asked, "client", ())
    again = kept.prepare(with_variable(asked, b"2"), "client", ())
    assert again.plan.objects[0] is first.plan.objects[0]


def test_a_program_that_has_been_replaced_is_read_again(asked, program):
    kept = Preparations(Clock())
    before = kept.prepare(asked, "client", ())
    other = program.with_name("other")
    other.write_text("#!/bin/sh\nexit 3\n")
    other.chmod(0o755)
    os.replace(other, program)
    found = kept.prepare(asked, "client", ())
    assert found.plan.objects[0].size > before.plan.objects[0].size


def test_a_program_that_is_gone_is_an_error_as_for_the_first_launch(asked, program):
    kept = Preparations(Clock())
    kept.prepare(asked, "client", ())
    program.unlink()
    with pytest.raises(ProgramNotFoundError):
        kept.prepare(asked, "client", ())


@pytest.mark.parametrize("change", ["time", "sort", "kind"])
def test_what_was_found_holds_for_a_second_for_launches_of_one_sort(asked, change):
    clock = Clock()
    kept = Preparations(clock)
    first = kept.prepare(asked, "client", ())
    clock.now += HOLDS_S if change == "time" else HOLDS_S / 2
    kind = "server" if change == "kind" else "client"
    sort = (("LD_PRELOAD", "libmpi.so"),) if change == "sort" else ()
    assert kept.prepare(asked, kind, sort).plan.objects[0] is not first.plan.objects[0]


def test_too_many_variables_are_refused_as_for_the_first_launch(asked):
    kept = Preparations(Clock())
    kept.prepare(asked, "client", ())
    many = {b"V%d" % number: b"" for number in range(ENVIRONMENT_MAX + 1)}
    many = replace(asked, invocation=replace(asked.invocation, environment=many))
    with pytest.raises(UsageError, match="variables"):
        kept.prepare(many, "client", ())


def test_variables_that_need_an_object_of_their_own_get_one(asked):
    kept = Preparations(Clock())
    first = kept.prepare(asked, "client", ())
    assert first.plan.are_arguments_inline
    large = with_variable(asked, b"x" * asked.limits.arguments_inline_bytes)
    found = kept.prepare(large, "client", ())
    assert not found.plan.are_arguments_inline
    assert plain(found) == plain(large.prepare())
