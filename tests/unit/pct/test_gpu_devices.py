"""Which device files are those of the GPUs that a job was not given."""

import os
from pathlib import Path

import pytest

from pct.account import Gpu
from pct.host.cgroups.gpus import denied

FULL, ZERO, RANDOM = "/dev/full", "/dev/zero", "/dev/random"  # in place of GPUs
NUMBERS = {path: os.stat(path).st_rdev for path in (FULL, ZERO, RANDOM)}
GPUS = (Gpu("0", "a"), Gpu("1", "a"))


def said(*paths: str) -> bytes:
    numbers = sorted((os.major(NUMBERS[path]), os.minor(NUMBERS[path])) for path in paths)
    return " ".join(f"{major}:{minor}" for major, minor in numbers).encode()


def link(root: Path, name: str, target: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("given", "others"),
    [((), (ZERO, FULL)), (GPUS[:1], (ZERO,)), (GPUS[1:], (FULL,)), (GPUS, ())],
)
def test_a_job_is_denied_the_gpus_that_it_was_not_given(tmp_path, given, others):
    link(tmp_path, "dev/nvidia0", FULL)
    link(tmp_path, "dev/nvidia1", ZERO)
    link(tmp_path, "dev/nvidiactl", RANDOM)
    assert denied(GPUS, given, str(tmp_path)) == said(*others)


def test_gpus_of_amd_are_found_by_their_topology_with_their_cards(tmp_path):
    nodes = "sys/class/kfd/kfd/topology/nodes"
    write(tmp_path, f"{nodes}/0/properties", "simd_count 0\ndrm_render_minor 0\n")
    write(tmp_path, f"{nodes}/1/properties", "simd_count 256\ndrm_render_minor 129\n")
    write(tmp_path, f"{nodes}/2/properties", "simd_count 256\ndrm_render_minor 128\n")
    write(tmp_path, "sys/class/drm/renderD128/device/drm/card1/x", "")
    for name, target in (("renderD129", FULL), ("renderD128", ZERO), ("card1", RANDOM)):
        link(tmp_path, f"dev/dri/{name}", target)
    assert denied(GPUS, GPUS[:1], str(tmp_path)) == said(ZERO, RANDOM)
    assert denied(GPUS, GPUS[1:], str(tmp_path)) == said(FULL)


def test_gpus_of_intel_are_render_nodes_of_that_maker(tmp_path):
    for number, maker in ((128, "0x1234"), (129, "0x8086"), (130, "0x8086")):
        write(tmp_path, f"sys/class/drm/renderD{number}/device/vendor", f"{maker}\n")
    for number, target in ((128, RANDOM), (129, FULL), (130, ZERO)):
        link(tmp_path, f"dev/dri/renderD{number}", target)
    assert denied(GPUS, (), str(tmp_path)) == said(FULL, ZERO)


def test_nothing_is_denied_where_the_files_are_not_known(tmp_path):
    assert denied(GPUS, (), str(tmp_path)) == b""
    assert denied((Gpu("GPU-1f", ""),), (), str(tmp_path)) == b""
    write(tmp_path, "dev/nvidia0", "a plain file")
    assert denied(GPUS[:1], (), str(tmp_path)) == b""
