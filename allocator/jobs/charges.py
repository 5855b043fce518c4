"""What users have used, as it is kept for fair share. Pure."""

from __future__ import annotations

from msgspec import Struct

from native.machine import Action


class Charge(Struct, frozen=True):
    """All that a user has used on an account.

    Attributes:
        slot_s: slots, each times the seconds that it was held, what is long ago counting less.
        at: unix time as of which that is so.
    """

    account: str
    uid: int
    slot_s: float
    at: float


class RecordCharge(Action, frozen=True):
    """Keep what a user has used, in the place of what was kept."""

    charge: Charge
