"""The table of faults names tests that are there, and every test of such a fault is in it."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.terminal_faults import FAULTS, HOSTS, SIMULATION, Fault

ROOT = Path(__file__).parents[2]
ON_HOSTS = {"anywhere", "start_hosts", "hosts"}  # fixtures


@cache
def found_in(path: str) -> dict[str, set[str]]:
    """The tests of a file, with the fixtures and parameters of each."""
    tree = ast.parse((ROOT / path).read_text())
    return {
        node.name: {each.arg for each in node.args.args}
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def places(names: tuple[str, ...], of: str) -> list[tuple[str, str]]:
    """File and name of each."""
    parts = [name.rpartition("::") for name in names]
    return [(path or of, test) for path, _, test in parts]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.what)
def test_a_fault_has_a_test_on_several_hosts(fault: Fault):
    assert fault.on_hosts
    for path, name in places(fault.on_hosts, HOSTS):
        assert found_in(path).get(name, set()) & ON_HOSTS, f"{path}::{name}"


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.what)
def test_a_fault_has_a_schedule_in_the_simulation(fault: Fault):
    assert fault.schedules
    for path, name in places(fault.schedules, SIMULATION):
        assert path.startswith("tests/sim/") and name in found_in(path), f"{path}::{name}"


@pytest.mark.parametrize("path", [HOSTS, SIMULATION])
def test_every_test_of_these_faults_is_in_the_table(path: str):
    named = {place for fault in FAULTS for place in places(fault.on_hosts, HOSTS)}
    named |= {place for fault in FAULTS for place in places(fault.schedules, SIMULATION)}
    assert {name for of, name in named if of == path} == set(found_in(path))
