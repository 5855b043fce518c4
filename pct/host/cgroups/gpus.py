"""The device files of a node's GPUs: what a job that was given others may not open.

NVIDIA's GPU n is `/dev/nvidian`. One of AMD or Intel has a render node and mostly a card, which
sysfs names: AMD's in the order of its topology, Intel's in that of their numbers, as those count
that give a job its GPUs. What serves all GPUs of a maker (`nvidiactl`, `kfd`) stays open; it gives
none of them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress

from pct.account import Gpu
from pct.host.cgroups.files import listed, text_of

ROOT_VARIABLE = "YOD_FSROOT"  # as for processors
_INTEL = "0x8086"
_TOPOLOGY = "sys/class/kfd/kfd/topology/nodes"
_DRM = "sys/class/drm"


def denied(gpus: Sequence[Gpu], given: Sequence[Gpu], root: str = "") -> bytes:
    """The devices of all but the given GPUs, as a keeper's specification has them.

    Args:
        gpus: of the node.
        root: of the kernel's files; empty: as YOD_FSROOT says, for tests.
    """
    root = root or os.environ.get(ROOT_VARIABLE) or "/"
    others = [gpu for gpu in gpus if gpu not in given]
    numbers = sorted({number for gpu in others for number in _numbers(gpu, root)})
    return " ".join(f"{major}:{minor}" for major, minor in numbers).encode()


def _numbers(gpu: Gpu, root: str) -> list[tuple[int, int]]:
    """Major and minor numbers of the files of a GPU; none: it has none that are known."""
    found = []
    for path in _paths(gpu, root):
        with suppress(OSError):
            device = os.stat(os.path.join(root, path)).st_rdev
            if device:
                found.append((os.major(device), os.minor(device)))
    return found


def _paths(gpu: Gpu, root: str) -> list[str]:
    if not gpu.name.isdecimal():
        return []
    number = int(gpu.name)
    if os.path.exists(os.path.join(root, f"dev/nvidia{number}")):
        return [f"dev/nvidia{number}"]
    nodes = _render_nodes(root)
    if number >= len(nodes):
        return []
    name = nodes[number]
    cards = listed(os.path.join(root, _DRM, name, "device/drm"))
    return [f"dev/dri/{each}" for each in (name, *cards) if each == name or _is_card(each)]


def _render_nodes(root: str) -> list[str]:
    """Those of the maker whose GPUs the node counts."""
    topology = os.path.join(root, _TOPOLOGY)
    amd = []
    for node in sorted((each for each in listed(topology) if each.isdecimal()), key=int):
        text = text_of(os.path.join(topology, node, "properties"))
        minor = re.search(r"^drm_render_minor (\d+)$", text, re.MULTILINE)
        if re.search(r"^simd_count [1-9]", text, re.MULTILINE) and minor is not None:
            amd.append(f"renderD{minor[1]}")
    if amd:
        return amd
    drm = os.path.join(root, _DRM)
    names = [name for name in listed(drm) if name.startswith("renderD") and name[7:].isdecimal()]
    by_number = sorted(names, key=lambda name: int(name[7:]))
    return [
        name for name in by_number if text_of(os.path.join(drm, name, "device/vendor")) == _INTEL
    ]


def _is_card(name: str) -> bool:
    return name.startswith("card") and name[4:].isdecimal()
