"""The batch systems, by the schema of a resource's job manager."""

from __future__ import annotations

from yod.pilot.batch.oar import Oar
from yod.pilot.batch.pbs import Pbs
from yod.pilot.batch.slurm import Slurm
from yod.pilot.batch.system import System

SYSTEMS: dict[str, System] = {each.name: each for each in (Slurm(), Pbs(), Oar())}
