"""Seeds of a scenario: the first of them in CI, the others with `pytest -m long`."""

from __future__ import annotations

import pytest
from _pytest.mark import ParameterSet


def seeds(count: int, of: int) -> list[ParameterSet]:
    """Seeds from 0: so many in CI, of so many in all."""
    others = [pytest.param(seed, marks=pytest.mark.long) for seed in range(count, of)]
    return [*map(pytest.param, range(count)), *others]
