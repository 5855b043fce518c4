"""The program criu of the tests, which tests/setup installs for them alone."""

from __future__ import annotations

import os
from functools import cache

import pytest

from native.host.backends.criu import find
from partition.checkpoint import criu
from tests.support.partition import ROOT

OWN = ROOT / ".venv-criu" / "criu"


@cache
def _found(*, for_users: bool) -> tuple[str, str]:
    """Its path, and why it cannot be used; empty: it can."""
    program = str(OWN) if OWN.exists() else find(os.environ)
    return program, criu.why_not(program, for_users=for_users)


def needs_criu() -> str:
    """The path of criu; a test without it is skipped, which fails in CI."""
    return _path(for_users=os.geteuid() != 0)


def needs_criu_for_users() -> str:
    """The same for users other than root."""
    return _path(for_users=True)


def _path(*, for_users: bool) -> str:
    program, why = _found(for_users=for_users)
    if why:
        pytest.skip(f"{why} (tests/setup installs it)")
    return program
