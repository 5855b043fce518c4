"""Words of RADICAL-Pilot's that scripts use, and that nothing here stands on."""

from __future__ import annotations

from yod.pilot.model import staging, states

FINAL = list(states.FINAL)  # scripts add lists to it

# How a program uses its cores: the values of ``threading_type``.
SERIAL = "Serial"
POSIX = "POSIX"
OpenMP = "OpenMP"
MPI = "MPI"
FUNC = "FUNC"
GPU = "GPU"
GPU_MPI = "GPU_MPI"
GPU_OpenMP = "GPU_OpenMP"
CUDA = "CUDA"

# How much of a core or GPU is taken.
FREE = 0.0
BUSY = 1.0
DOWN = None

DEFAULT_ACTION = staging.TRANSFER
DEFAULT_PRIORITY = 0

TASK_STATE = "TASK_STATE"
WAIT_QUEUE_SIZE = "WAIT_QUEUE_SIZE"
TMGR_METRICS = [TASK_STATE, WAIT_QUEUE_SIZE]
PILOT_STATE = "PILOT_STATE"
PMGR_METRICS = [PILOT_STATE]

SCHEDULER_ROUND_ROBIN = "round_robin"
SCHEDULER_BACKFILLING = "backfilling"
SCHEDULER_DEFAULT = SCHEDULER_ROUND_ROBIN

# Callbacks take lists where the environment has this variable.
BULK_VARIABLE = "RADICAL_PILOT_BULK_CB"
