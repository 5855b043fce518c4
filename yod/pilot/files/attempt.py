"""What has become of staging directives; :mod:`yod.pilot.files.staging` does them."""

from __future__ import annotations

from typing import NamedTuple

from yod.pilot.model.staging import Directive


class Attempt(NamedTuple):
    """A directive that was tried: why it failed, and since when and until when in seconds of day.

    Attributes:
        failure: empty: it is done.
    """

    directive: Directive
    failure: str
    began: float
    ended: float


def failure_of(tried: list[Attempt]) -> str:
    """The failure that counts; empty: there is none."""
    return next((one.failure for one in tried if one.failure and one.directive.is_fatal), "")
