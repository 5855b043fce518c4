"""Broken machines, to see that the checker finds what it is there for.

Each defect changes one rule of one machine, as a wrong edit might; ``apply`` gets
pytest's monkeypatch. A module of this folder has the defects of one program or concern.
"""

from tests.sim.defects import bebopd, operators, pct, pmix, server, worlds, yod
from tests.sim.defects.registry import DEFECTS, PLAYS

__all__ = ["DEFECTS", "PLAYS", "bebopd", "operators", "pct", "pmix", "server", "worlds", "yod"]
