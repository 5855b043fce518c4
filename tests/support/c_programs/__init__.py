"""C programs that use libportals and libpmi, compiled as their users would.

The libraries are built from a copy of the sources and installed below a staging
directory by ``make install``; programs ask pkg-config how to compile.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
NATIVE = HERE.parents[2] / "native"
PREFIX = "/opt/of-a-test"
FLAGS = ("-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1")


class Staged:
    """An installation below a directory.

    Attributes:
        root: DESTDIR.
        prefix: the installation.
    """

    def __init__(self, directory: Path) -> None:
        self.root = directory / "stage"
        self.prefix = self.root / PREFIX.lstrip("/")
        self._sources = directory / "native"
        self._programs = directory / "programs"
        self._programs.mkdir()
        made = shutil.ignore_patterns("*.py", "__pycache__", "build", "*.so*", "*.o")
        shutil.copytree(NATIVE, self._sources, ignore=made)
        self.make("install")

    def make(self, target: str) -> None:
        """Make a target of the copy, for this staging directory."""
        words = ["make", "-s", "-j", "2", "-C", self._sources, target, "CFLAGS=-O1"]
        subprocess.run([*words, f"PREFIX={PREFIX}", f"DESTDIR={self.root}"], check=True)

    def flags(self, *packages: str) -> list[str]:
        """What pkg-config says of these packages."""
        environment = {
            **os.environ,
            "PKG_CONFIG_PATH": str(self.prefix / "lib/pkgconfig"),
            "PKG_CONFIG_SYSROOT_DIR": str(self.root),
        }
        words = ["pkg-config", "--cflags", "--libs", *packages]
        run = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
        return run.stdout.split()

    def program(self, name: str, *packages: str, beside: tuple[str, ...] = ()) -> Path:
        """One of the programs here, linked by what pkg-config says, once a session.

        Args:
            beside: files of native/transport/src to compile with it.
        """
        path = self._programs / name
        if not path.exists():
            run_path = f"-Wl,-rpath,{self.prefix / 'lib'}"
            source = HERE / f"{name}.c"
            inside = self._sources / "transport/src"
            parts = [f"-I{each}" for each in inside.glob("*/")] if beside else []
            parts += [str(inside / each) for each in beside]
            words = ["cc", *FLAGS, "-D_GNU_SOURCE", source, *parts, "-o", path]
            words += [*self.flags(*packages), run_path]
            subprocess.run(words, check=True)
        return path


@pytest.fixture(scope="session")
def staged(tmp_path_factory: pytest.TempPathFactory) -> Staged:
    """The libraries, installed once a session (and worker)."""
    return Staged(tmp_path_factory.mktemp("staged"))
