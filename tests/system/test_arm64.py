"""The programs and libraries in C are made for arm64 as well, and begin there."""

from __future__ import annotations

import os
import platform
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.partition import ROOT
from tests.support.wait import LIMIT_S

IS_NATIVE = platform.machine() == "aarch64"
COMPILER = "cc" if IS_NATIVE else "aarch64-linux-gnu-gcc"
RUNNER = () if IS_NATIVE else ("qemu-aarch64-static",)
SOURCES = ("allocator", "native", "partition", "pct", "yod")  # a client is of one release of all
AARCH64 = 183  # EM_AARCH64, elf.h
MADE = (
    "libportals.so.4",
    "libpmi.so.1",
    "keeper/yod-keeper",
    "hold/yodhold.so",
    "script/yod-script",
    "init/yod-init",
    "client/yod",
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What ``make -C native`` makes, where each warning is an error."""
    place = tmp_path_factory.mktemp("arm64")
    ignored = shutil.ignore_patterns("__pycache__", "build", "*.so", "*.so.*", "_native.c")
    for name in SOURCES:
        shutil.copytree(ROOT / name, place / name, ignore=ignored)
    shutil.copy(ROOT / "setup.py", place)
    native = place / "native"
    for name in MADE[2:]:
        (native / name).unlink(missing_ok=True)
    make = ["make", "-j2", "-C", native, f"CC={COMPILER}", "CFLAGS=-O1 -Werror"]
    subprocess.run(make, check=True, capture_output=True, timeout=2 * LIMIT_S)
    yield native
    shutil.rmtree(place)


@pytest.mark.parametrize("name", MADE)
def test_it_is_made_for_arm64_without_a_warning(built, name):
    (machine,) = struct.unpack_from("<H", (built / name).read_bytes(), 18)
    assert machine == AARCH64


def test_the_client_says_why_a_launch_would_be_cold(built, tmp_path):
    environment = {**os.environ, "YOD_COLD": "never", "YOD_LAUNCH_SERVER": str(tmp_path)}
    command = [*RUNNER, built / "client/yod", "true"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT_S)
    assert (done.returncode, done.stdout) == (125, "")
    assert done.stderr.startswith("yod: ") and done.stderr.count("\n") == 1
