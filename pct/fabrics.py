"""Whether a node has a fabric: a network that MPI libraries drive without the kernel.

Open MPI looks for each kind that it knows in every rank, and waits for those that it
does not find: a second in 5.0, a fifth of one in 4.1. A node can look once, in less
than a millisecond.
"""

from __future__ import annotations

import os

CLASSES = (  # of devices, in /sys/class
    "infiniband",  # InfiniBand, RoCE, iWARP, Omni-Path, EFA, usNIC
    "infiniband_verbs",
    "cxi",  # Slingshot
    "cxi_user",
    "gni",  # Gemini and Aries
    "bxi",
)
DEVICES = ("bxi", "cxi", "hfi1", "infiniband", "ipath", "kgni", "portals", "uverbs")  # in /dev
ACCELERATORS = ("accel", "dri", "kfd", "nvidia")  # in /dev
SETTINGS = b".openmpi/mca-params.conf"  # of a user, in their home


def may_be_here(root: str = "/") -> bool:
    """Whether the node has one, or cannot tell."""
    classes = os.path.join(root, "sys/class")
    try:
        found = set(os.listdir(classes))
        devices = os.listdir(os.path.join(root, "dev"))
        # The kernel makes a class when it loads a module, with or without a device.
        known = [name for name in CLASSES if name in found]
        has_some = any(os.listdir(os.path.join(classes, name)) for name in known)
    except OSError:
        return True
    if "net" not in found:  # this is no whole /sys
        return True
    return has_some or any(name.startswith(DEVICES) for name in devices)


def may_be_placed(root: str = "/") -> bool:
    """Whether it may matter to ranks where in the machine an I/O device is."""
    try:
        devices = os.listdir(os.path.join(root, "dev"))
    except OSError:
        return True
    return may_be_here(root) or any(name.startswith(ACCELERATORS) for name in devices)


def may_be_chosen(home: bytes) -> bool:
    """Whether a user has a file of settings for Open MPI, or it cannot be told."""
    if not home.startswith(b"/"):
        return True
    try:
        os.stat(os.path.join(home, SETTINGS))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True
