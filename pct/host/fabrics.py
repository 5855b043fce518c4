"""Looks for fabrics: networks that MPI libraries drive without the kernel.

In every rank Open MPI looks for each kind of fabric that it knows, and waits for those that it
does not find: a second in 5.0, a fifth of one in 4.1. On a node without an accelerator, too,
two other preparations are useless: hwloc looks where in the machine each device is, and UCX
hooks into libc to learn of freed memory. The node can look once for all ranks, in less than a
millisecond.
"""

from __future__ import annotations

import os

from native.host.files import Owner, exists
from pct.pmi_events import Devices

CLASSES = (  # of devices, in /sys/class
    "infiniband",  # InfiniBand, RoCE, iWARP, Omni-Path, EFA, usNIC
    "infiniband_verbs",
    "cxi",  # Slingshot
    "cxi_user",
    "gni",  # Gemini and Aries
    "bxi",
)
DEVICES = ("bxi", "cxi", "hfi1", "infiniband", "ipath", "kgni", "portals", "uverbs")  # in /dev
ACCELERATORS = ("accel", "dxg", "kfd", "nvidia")  # in /dev
RENDERERS = "renderD"  # in /dev/dri; its other devices only drive screens
MEMORY = ("knem", "xpmem")  # in /dev: they give access to another process's memory
SETTINGS = b".openmpi/mca-params.conf"  # of a user, in their home


def look(home: bytes, owner: Owner) -> Devices:
    """What this node has.

    Args:
        home: the owner's home directory.
    """
    has_fabric = may_be_here()
    return Devices(has_fabric, has_fabric or devices_may_be_here(), may_be_chosen(home, owner))


def may_be_here(root: str = "/") -> bool:
    """False: this node has no fabric. True: it has one, or that cannot be found out."""
    classes = os.path.join(root, "sys/class")
    try:
        found = set(os.listdir(classes))
        devices = os.listdir(os.path.join(root, "dev"))
        # The kernel makes a class when it loads a module, with or without a device.
        known = [name for name in CLASSES if name in found]
        has_some = any(os.listdir(os.path.join(classes, name)) for name in known)
    except OSError:
        return True
    if "net" not in found:  # /sys is not complete
        return True
    return has_some or any(name.startswith(DEVICES) for name in devices)


def devices_may_be_here(root: str = "/") -> bool:
    """False: this node has no device that MPI libraries drive. True: it has, or cannot tell."""
    try:
        devices = os.listdir(os.path.join(root, "dev"))
        screens = os.listdir(os.path.join(root, "dev/dri")) if "dri" in devices else []
    except OSError:
        return True
    return (
        may_be_here(root)
        or any(name.startswith(ACCELERATORS + MEMORY) for name in devices)
        or any(name.startswith(RENDERERS) for name in screens)
    )


def may_be_chosen(home: bytes, owner: Owner) -> bool:
    """False: the user has no settings file of Open MPI. True: there is one, or cannot tell."""
    if not home.startswith(b"/"):
        return True
    try:
        return exists(os.path.join(home, SETTINGS), owner)
    except OSError:
        return True
