"""A place of its own for each test: home, state and run-time directories.

The run-time directory is on a RAM disk that programs can be run from, where
the machine has one: it is the first place that a PCT's store tries.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

# An outer launcher's or batch system's, and the developer's own settings: none may
# reach the programs under test.
FOREIGN = ("YOD_", "PMI_", "PMIX_", "PMI2_", "OMPI_", "PRTE_", "SLURM_", "PBS_", "MPICH_", "HYDRA_")
FOREIGN_NAMES = ("PYTHONPATH", "PARALLEL_FILE_SYSTEM", "MPI_LOCALNRANKS", "MPI_LOCALRANKID")

# Marks every process that a test has started: it is in their environment.
MARK = "TEST_OF_YOD"


class Place:
    """Directories of one test, and the environment that points to them.

    Attributes:
        directory: where its home, state and temporary directories are.
        runtime: XDG_RUNTIME_DIR.
        mark: the value of the environment variable that marks its processes.
    """

    def __init__(self, directory: Path, mark: str) -> None:
        self.directory = directory
        self.mark = mark
        self.runtime = Path(tempfile.mkdtemp(prefix="test-of-yod-", dir=_ram_disk()))
        for name in ("home", "state", "tmp"):
            (directory / name).mkdir(parents=True)

    def environment(self) -> dict[str, str]:
        """The whole environment of a program that runs here."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(FOREIGN) and name not in FOREIGN_NAMES
        }
        return {
            **kept,
            MARK: self.mark,
            "YOD_LAUNCH_SERVER": "cold",  # a test that wants a launch server names its own
            "YOD_RUN_DIRECTORY": "none",  # else tests that run at the same time would meet
            "YOD_NOTICE_S": "3600",  # a busy machine makes no lines of its own
            "HOME": str(self.directory / "home"),
            "XDG_RUNTIME_DIR": str(self.runtime),
            "XDG_STATE_HOME": str(self.directory / "state"),
            "TMPDIR": str(self.directory / "tmp"),
        }

    def files(self) -> set[str]:
        """Everything in the run-time and temporary directories, but for :func:`of_jobs`."""
        roots = (self.runtime, self.directory / "tmp")
        return {str(path) for root in roots for path in below(root) if not of_jobs(root, path)}

    def remove(self) -> None:
        """Remove the run-time directory; the other is pytest's to remove."""
        shutil.rmtree(self.runtime, ignore_errors=True)


def below(root: Path) -> Iterator[Path]:
    """All that is in a directory, but for what is removed meanwhile."""
    for directory, directories, files in os.walk(root):
        yield from (Path(directory, name) for name in (*directories, *files))


def of_jobs(runtime: Path, path: Path) -> bool:
    """Whether a path is of the directory of jobs' sockets.

    It stays, and a yod that is killed leaves its name there until somebody meets it.
    """
    return path == runtime / "yod" or path.is_relative_to(runtime / "yod/jobs")


def _ram_disk() -> str | None:
    """/dev/shm if programs can be run from it."""
    try:
        flags = os.statvfs("/dev/shm").f_flag
    except OSError:
        return None
    return None if flags & (os.ST_NOEXEC | os.ST_RDONLY) else "/dev/shm"
