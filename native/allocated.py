"""What a process in an allocation finds in its environment. Pure.

An allocation replaces some variables of its user's; those of the partition that has granted it
are kept under other names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

PARTITION_VARIABLE = "YOD_PARTITION"
KEY_VARIABLE = "YOD_KEY_FILE"
ALLOCATION_VARIABLE = "YOD_ALLOCATION"  # the id of the allocation that YOD_PARTITION names
SYSTEMS_VARIABLE = "YODJOB_AS"  # whose variables a batch script finds beside ours, with commas
SAVED_VARIABLE = "YOD_CR_JOB_DIR"  # where the script is written down that has started yod-cr
HOOKS_VARIABLE = "YOD_HOOKS"  # the file that names the site's hooks
REPLACED = (PARTITION_VARIABLE, KEY_VARIABLE)
PLACE, LOCK = "place", "lock"  # files there: where the allocation is; held while it is written down
_OUTER = "YOD_OUTER_"  # before the names of the variables that an allocation has replaced


def outer_name(name: str) -> str:
    """The name under which a replaced variable is kept."""
    return _OUTER + name.removeprefix("YOD_")


def outer_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """What an allocation's command finds instead of the variables that are replaced."""
    return {outer_name(name): environment[name] for name in REPLACED if environment.get(name)}


def variables(
    job_id: str,
    names: Sequence[str],
    slots: Sequence[int],
    environment: Mapping[str, str],
) -> dict[str, str]:
    """The variables of an allocation, without those by which yods reach it.

    Args:
        job_id: of the allocation, as users call it.
        names: of its nodes, in their order.
        slots: of each node.
        environment: of its user.
    """
    return {
        **outer_variables(environment),
        ALLOCATION_VARIABLE: job_id,
        "YOD_SLOTS": str(sum(slots)),
        "YOD_NODE_COUNT": str(len(slots)),
        "YOD_NODE_NAMES": ",".join(names),
        "YOD_NODE_SLOTS": ",".join(map(str, slots)),
    }


def saved_directory(checkpoints: str, step_id: str) -> str:
    """Where the checkpoints of a script are, in the directory that its user has named."""
    return f"{checkpoints}/{step_id}"


def saved_variables(directory: str) -> dict[str, str]:
    """By which yods reach the allocation of a script that may be written down.

    Its environment stays as it is when it is brought back, and the allocation is elsewhere then.
    """
    return {PARTITION_VARIABLE: f"file:{directory}/{PLACE}", SAVED_VARIABLE: directory}
