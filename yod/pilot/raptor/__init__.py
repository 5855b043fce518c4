"""What applications make raptors of: ``class MyWorker(rp.raptor.DefaultWorker)`` and masters.

I/O. Imports native, yod.pilot.
"""

from __future__ import annotations

from typing import Any

from yod.pilot.raptor.worker import DefaultWorker, MPIWorker, Worker

__all__ = ["DefaultWorker", "MPIWorker", "Master", "Worker"]


def __getattr__(name: str) -> Any:
    """The master, which workers need not import."""
    if name == "Master":
        from yod.pilot.raptor.master import Master

        return Master
    raise AttributeError(f"module {__name__} has no attribute {name!r}")
