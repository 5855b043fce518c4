"""Build and packaging of yod.

What is not plain setuptools here:

* ``build_ext`` also runs ``make -C native``: libportals, libpmi, the keeper, the hold
  library and the client are programs of their own, not extensions. They travel in the
  wheel beside the Python modules that use them, but for the client: ``yod`` and ``yodjob``.
* The other commands are written by ``build_scripts`` below and not as entry points.
  PYTHON* variables are the application's, and a script that an installer makes
  obeys them: it would take a user's ``allocator.py`` or ``enum.py`` for ours, and
  not start at all under a foreign PYTHONHOME.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Distribution, find_packages, setup
from setuptools.command.build_ext import build_ext

# isort: split
from distutils.command.build_scripts import build_scripts  # setuptools' copy
from distutils.command.install_data import install_data

HERE = Path(__file__).resolve().parent

COMMANDS = {
    "yod-cold": "yod.command",
    "bebopd": "allocator.command.main",
    "pct": "pct.command.main",
    "pingd": "partition.pingd",
    "yodctl": "partition.yodctl",
    "yodjob-cold": "partition.yodjob",
    "yod-server": "partition.server.cli",
    "yod-agent": "yod.agent",
    "yod-cr": "yod.cr",
    "yod-ensemble": "ensemble.cli",
    "yod-pilot": "yod.pilot.command",
}

# What `make -C native` makes, and the package that each travels in.
PRODUCTS = [
    *("native/libportals.so", "native/libportals.so.4"),  # a wheel has no links: both are files
    *("native/libpmi.so", "native/libpmi.so.1"),
    "native/keeper/yod-keeper",
    "native/hold/yodhold.so",
    "native/script/yod-script",
    "native/starter/yod-starter",
    "native/init/yod-init",
    "native/client/release",  # which client works with these packages
]

# These commands are this program in C, which looks at its name. Where no launch server is it
# executes the script `yod-cold` or `yodjob-cold`.
CLIENT = HERE / "native" / "client" / "yod"
CLIENT_NAMES = ["yod", "yodjob"]

# To the shell, the docstring is the program: it starts the interpreter beside the
# script, or else of the release that yod was installed for, with -E (PYTHON* variables
# do not exist), -P (neither does the script's directory, as a place for modules) and -S.
# A first line of `#!python -EPS` would be simpler and half a millisecond faster, but
# installers drop the options.
#
# -S: site reads all .pth files of the installation, twice in a virtual environment, and
# imports what they say. What we import at a start lies where the script was installed to;
# site is asked for the rest, by Elsewhere, once.
#
# Python does not start where a standard stream is a directory (`pingd </tmp`): to read one is to
# come to its end, as it is for other programs, and to write one fails as to write a closed one.
#
# An interrupt that comes before the command takes its own signals shows no traceback.
# Under `ulimit -f` no .pyc is written: Python does not see that one is cut short, and
# each later start would fail.
#
# What is imported stays, and a launch leaves few cycles (native/loop/daemon.py): the collector
# would find next to nothing, and take a twentieth of the time of a short command. Importing all
# that a launch needs makes 35 000 objects.
SCRIPT = """\
#!/bin/sh
''':'
self=$0
[ ! -L "$self" ] || self=$(readlink -f "$self")
python=${self%/*}/python3
if [ ! -x "$python" ]; then
    python=python3
    for place in "${self%/*}"/../lib*/python3.*/*-packages/yod; do
        [ ! -d "$place" ] || python=python3.${place##*/python3.}
    done
    python=${python%%/*}
    command -v "$python" >/dev/null || python=python3
fi
[ ! -d /dev/fd/0 ] || exec </dev/null
[ ! -d /dev/fd/1 ] || exec >&-
[ ! -d /dev/fd/2 ] || exec 2>&-
exec "$python" -EPS "$0" "$@"
'''

import gc
import os
import resource
import signal
import sys

gc.set_threshold(50_000)
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
if resource.getrlimit(resource.RLIMIT_FSIZE)[0] != resource.RLIM_INFINITY:
    sys.dont_write_bytecode = True


class Elsewhere:
    "Finds what is not beside us where site says that it is."

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "typing_extensions":  # msgspec looks for it, and needs it not
            return None
        sys.meta_path.remove(Elsewhere)
        import site
        from importlib.machinery import PathFinder

        site.main()
        return PathFinder.find_spec(name, path, target)


prefix = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
python = "python%d.%d" % sys.version_info[:2]
for kind in ("site", "dist"):  # the latter is Debian's
    sys.path.append(f"{prefix}/{sys.platlibdir}/{python}/{kind}-packages")
if os.path.exists(f"{prefix}/yod/command.py"):  # pip install --target
    sys.path.append(prefix)
sys.path += SOURCES
sys.meta_path.append(Elsewhere)
from MODULE import main

sys.exit(main())
"""


class BuildNative(build_ext):
    """The cffi extension, and what the Makefile in ``native`` makes."""

    def run(self) -> None:
        jobs = os.environ.get("MAX_JOBS") or str(os.cpu_count() or 1)
        subprocess.run(["make", "-C", str(HERE / "native"), "-j", jobs], check=True)
        super().run()
        if not self.editable_mode:
            for product in PRODUCTS:
                target = Path(self.build_lib, product)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(HERE / product, target)  # keeps the keeper executable

    def get_outputs(self) -> list[str]:
        return super().get_outputs() + [str(Path(self.build_lib, p)) for p in PRODUCTS]

    def get_output_mapping(self) -> dict[str, str]:
        mapping = {str(Path(self.build_lib, product)): product for product in PRODUCTS}
        return {**super().get_output_mapping(), **(mapping if self.editable_mode else {})}


class BuildCommands(build_scripts):
    """The client, and one script per command, from the template above."""

    editable_mode = False  # setuptools says

    def run(self) -> None:
        target = Path(self.build_dir)
        target.mkdir(parents=True, exist_ok=True)
        self.run_command("build_ext")  # makes the client
        for name in CLIENT_NAMES:
            shutil.copy2(CLIENT, target / name)
        for name, module in COMMANDS.items():
            script = target / name
            sources = repr([str(HERE)] if self.editable_mode else [])
            script.write_text(SCRIPT.replace("SOURCES", sources).replace("MODULE", module))
            script.chmod(0o755)

    def get_source_files(self) -> list[str]:
        return []


# Commands of Slurm's, in a directory that a site may put into PATH.
SLURM = ("salloc", "sbatch", "srun", "squeue", "scancel", "sinfo", "sacct", "scontrol")
SLURM_SCRIPT = """\
#!/bin/sh
# What Slurm's NAME does, by yod: man yod-slurm
self=$(readlink -f "$0")
exec "${self%/*}/../../../bin/yodjob" slurm NAME "$@"
"""


class InstallShared(install_data):
    """Pages of docs/ that are man pages, too, and commands with Slurm's names.

    ``man`` finds share/man beside a bin in PATH.
    """

    def run(self) -> None:
        sys.path.insert(0, str(HERE / "docs"))
        import man  # needs what a build requires

        pages = man.write_all(Path(self.install_dir, "share/man"), self.distribution.get_version())
        self.outfiles += map(str, [*pages, *self._slurm(Path(self.install_dir, "share/yod/slurm"))])

    def _slurm(self, directory: Path) -> list[Path]:
        directory.mkdir(parents=True, exist_ok=True)
        scripts = [directory / name for name in SLURM]
        for script in scripts:
            script.write_text(SLURM_SCRIPT.replace("NAME", script.name))
            script.chmod(0o755)
        return scripts


class Yod(Distribution):
    """That it has data is said by these, because the files are made when they are installed."""

    def has_data_files(self) -> bool:
        return True

    has_data = has_data_files  # an editable installation asks this


setup(
    distclass=Yod,
    name="yod",
    version="0.1.0",
    description="Parallel application loader: starts MPI and other programs on many nodes",
    long_description=(HERE / "README.md").read_text() if (HERE / "README.md").exists() else "",
    long_description_content_type="text/markdown",
    author="The yod authors",
    license="BSD-3-Clause",
    license_files=["LICENSE"],
    platforms=["Linux"],
    classifiers=[
        "Operating System :: POSIX :: Linux",
        "Programming Language :: C",
        "Programming Language :: Python :: 3 :: Only",
        "Topic :: System :: Distributed Computing",
    ],
    python_requires=">=3.11",
    packages=[
        name
        for package in ("native", "allocator", "pct", "yod", "partition", "ensemble")
        for name in (package, *(f"{package}.{room}" for room in find_packages(package)))
    ],
    # Naming the root makes an editable install one line of path, which costs a
    # start nothing; the import hook that setuptools installs otherwise does.
    package_dir={"": "."},
    package_data={
        "native": ["pmi/pmi.h"],
        "native.transport": ["include/*.h"],
        "native.wire": ["*.md"],
        "partition.web": ["page.*"],
        "ensemble.status": ["page.*"],
    },
    cffi_modules=["native/transport/build_native.py:ffibuilder"],
    scripts=[*CLIENT_NAMES, *COMMANDS],
    cmdclass={
        "build_ext": BuildNative,
        "build_scripts": BuildCommands,
        "install_data": InstallShared,
    },
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
    install_requires=[
        "cffi>=1.16",
        "click>=8.1",
        "ClusterShell>=1.9",
        "h11>=0.14",
        "msgspec>=0.18.6",
        "numpy>=1.26",
        "rich>=13",
        "xxhash>=3.4",
    ],
    extras_require={
        "check": ["mypy", "ruff", "types-cffi", "types-setuptools"],
        "mpi": ["mpi4py>=4", "mpich>=4.2"],
        "parsl": ["cloudpickle>=3", "parsl>=2025"],
        "pilot": ["cloudpickle>=3", "pyzmq>=25"],
        "plot": ["matplotlib>=3.8"],
        "psij": ["psij-python>=0.9.9"],
        "stack": ["py-spy>=0.4"],
        "test": [
            "cloudpickle>=3",
            "docutils>=0.20",
            "executorlib>=1.11",
            "hypothesis",
            "matplotlib>=3.8",
            "myst-docutils>=3",
            "prometheus-client",
            "py-spy>=0.4",
            "pytest>=8",
            "pytest-randomly",
            "pytest-timeout",
            "pytest-xdist",
            "pyzmq>=25",
        ],
    },
    zip_safe=False,
)
