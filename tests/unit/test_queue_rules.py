"""The table of the queue's rules names tests that are there, and has every rule."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from allocator.queue.rules import PreemptMode
from native.wire.base import AfterKind
from tests.queue_rules import DEPENDENCIES, PREEMPTIONS, RULES, STEPS, STEPS_COUNT, Rule

ROOT = Path(__file__).parents[2]


@cache
def functions_of(path: str) -> dict[str, bool]:
    """The functions and methods of a file, and whether they assert anything."""
    tree = ast.parse((ROOT / path).read_text())
    return {
        node.name: any(isinstance(each, ast.Assert) for each in ast.walk(node))
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
    }


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_has_a_test_on_daemons(rule: Rule):
    assert rule.on_daemons
    for place in rule.on_daemons:
        file, _, name = place.partition("::")
        assert name.startswith("test_"), place
        assert name in functions_of(f"tests/system/{file}"), place


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_is_asserted_in_worlds_of_any_order(rule: Rule):
    assert rule.always
    for place in rule.always:
        path, _, name = place.partition("::")
        assert functions_of(path).get(name), f"{place}: not there, or it asserts nothing"


def test_the_table_has_every_step_kind_of_preemption_and_dependency():
    assert {int(rule.name.split()[0]) for rule in STEPS} == set(range(1, STEPS_COUNT + 1))
    assert [rule.name for rule in PREEMPTIONS] == [*(mode.value for mode in PreemptMode), "nice"]
    words = [*(kind.value for kind in AfterKind), "singleton"]
    assert [rule.name for rule in DEPENDENCIES] == words
