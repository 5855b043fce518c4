"""Files of programs for tests, and what is told of the MPI that they speak."""

import os

from native.wire.load import Protocol
from tests.unit.yod.elf_of import elf_of
from yod.program.speech import Program, mpi_of

PMI1, PMI2, PMIX = Protocol
NOT_KNOWN = (PMI1, PMIX)
RELEASE = "python3.11"


class Files:
    """A directory with programs, libraries and loaders.

    Attributes:
        environment: of the ranks.
    """

    def __init__(self, directory):
        self.directory = directory
        self.environment = {b"HOME": os.fsencode(directory / "home")}

    def write(self, name, data, mode=0o755):
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        path.chmod(mode)
        return path

    def library(self, path, *needed, **more):
        return self.write(path, elf_of(needed, **{"name": os.path.basename(path), **more}))

    def loader(self, script):
        """A loader: it gets ``--list`` and the program's path."""
        return str(self.write("ld-own.so", "#!/bin/sh\n" + script))

    def loader_of(self, found):
        """A loader that finds these libraries for every program."""
        lines = "".join(f"\t{name} => {path} (0x7f00)\n" for name, path in found.items())
        return self.loader(f"cat <<'END'\n\tlinux-vdso.so.1 (0x7f)\n{lines}END\n")

    def program(self, *needed, found=None, name="program"):
        """A program that needs these libraries, with a loader that finds those."""
        return self.write(name, elf_of(needed, loader=self.loader_of(found or {})))

    def venv(self, *, home=None, settings="", extensions=("mpich", "openmpi")):
        """An environment with mpi4py's wheel; returns its interpreter."""
        home = home or self.directory / "base/bin"
        self.write("venv/pyvenv.cfg", f"home = {home}\nversion = 3.11.7\n{settings}")
        for each in extensions:
            name = f"MPI.{each}.cpython-311-x86_64-linux-gnu.so".replace("..", ".")
            self.library(f"venv/lib/{RELEASE}/site-packages/mpi4py/{name}")
        return self.program("libc.so.6", name="venv/bin/python")

    def told(self, *programs, **options):
        return mpi_of(
            [each if isinstance(each, Program) else Program(str(each)) for each in programs],
            self.environment,
            **options,
        )[:2]
