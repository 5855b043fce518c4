"""Trees of files that describe processors, as the kernel's /sys does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path


def write_tree(
    root: Path,
    rows: Iterable[tuple[int, int | str, str]],
    *,
    online: str,
    numa: Mapping[int, str] | None = None,
) -> Path:
    """Write a tree.

    Args:
        rows: of each processor: its number, its socket's, the threads of its core.
        online: processors.
        numa: processors of each NUMA node.
    """
    system = root / "sys/devices/system"
    for cpu, socket, siblings in rows:
        topology = system / f"cpu/cpu{cpu}/topology"
        topology.mkdir(parents=True)
        (topology / "physical_package_id").write_text(f"{socket}\n")
        (topology / "thread_siblings_list").write_text(f"{siblings}\n")
    (system / "cpu/online").write_text(f"{online}\n")
    for node, cpus in (numa or {}).items():
        directory = system / f"node/node{node}"
        directory.mkdir(parents=True)
        (directory / "cpulist").write_text(f"{cpus}\n")
    return root
