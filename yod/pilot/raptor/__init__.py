"""What applications make raptors' workers of: ``class MyWorker(rp.raptor.DefaultWorker)``.

I/O. Imports native, yod.pilot.
"""

from __future__ import annotations

from yod.pilot.raptor.worker import DefaultWorker, MPIWorker, Worker

__all__ = ["DefaultWorker", "MPIWorker", "Worker"]
