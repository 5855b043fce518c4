"""Build and packaging of yod.

What is not plain setuptools here:

* ``build_ext`` also runs ``make -C native``: libportals.so, the keeper and the
  start library are programs of their own, not extensions. They travel in the
  wheel beside the Python modules that use them.
* The commands are written by ``build_scripts`` below and not as entry points:
  the script that pip makes for an entry point imports ``re`` and the entry's
  module with the user's PYTHONPATH in front, so that a user's ``allocator.py``
  or ``enum.py`` would become ours.
"""

import os
import shutil
import subprocess
from pathlib import Path

from setuptools import setup
from setuptools.command.build_ext import build_ext

# isort: split
from distutils.command.build_scripts import build_scripts  # setuptools' copy

HERE = Path(__file__).resolve().parent

COMMANDS = {
    "yod": "yod.cli",
    "bebopd": "allocator.cli",
    "pct": "pct.cli",
    "pingd": "allocator.pingd",
    "yodctl": "partition.yodctl",
}

# What `make -C native` makes, and the package that each travels in.
PRODUCTS = ["native/libportals.so", "native/keeper/yod-keeper", "native/start/yodstart.so"]

# The first line is the installer's to replace. `os` and `site` come from the
# interpreter itself and are loaded before any script runs; nothing else may be
# imported before the search path is clean.
SCRIPT = '''\
#!python
"""The command {name}; made by setup.py."""

import sys

if not sys.flags.safe_path:
    del sys.path[0]  # where this script lies: not a place for modules
if not sys.flags.ignore_environment:
    import os

    if os.environ.get("PYTHONPATH"):
        # PYTHONPATH is the application's. An entry may also be a directory of
        # the interpreter's own, which stays.
        import site

        stdlib = os.path.dirname(os.__file__)
        kept = {{stdlib, os.path.join(stdlib, "lib-dynload")}}
        dropped = {{os.path.abspath(p) for p in os.environ["PYTHONPATH"].split(os.pathsep)}}
        sys.path[:] = [p for p in sys.path if p not in dropped or p in kept]
        known = site.removeduppaths()
        if site.ENABLE_USER_SITE:
            site.addusersitepackages(known)
        site.addsitepackages(known)

from {module} import main

sys.exit(main())
'''


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
    """One script per command, from the template above."""

    def run(self) -> None:
        target = Path(self.build_dir)
        target.mkdir(parents=True, exist_ok=True)
        for name, module in COMMANDS.items():
            script = target / name
            script.write_text(SCRIPT.format(name=name, module=module))
            script.chmod(0o755)

    def get_source_files(self) -> list[str]:
        return []


setup(
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
    packages=["native", "native.wire", "allocator", "pct", "yod", "partition"],
    # Naming the root makes an editable install one line of path, which costs a
    # start nothing; the import hook that setuptools installs otherwise does.
    package_dir={"": "."},
    package_data={"native": ["include/*.h"], "native.wire": ["PROTOCOL.md"]},
    cffi_modules=["native/build_native.py:ffibuilder"],
    scripts=list(COMMANDS),
    cmdclass={"build_ext": BuildNative, "build_scripts": BuildCommands},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
    install_requires=[
        "cffi>=1.16",
        "click>=8.1",
        "ClusterShell>=1.9",
        "msgspec>=0.18.6",
        "numpy>=1.26",
        "rich>=13",
    ],
    extras_require={
        "mpi": ["mpi4py>=4", "mpich>=4.2"],
        "test": [
            "hypothesis",
            "mypy",
            "pytest>=8",
            "pytest-randomly",
            "pytest-timeout",
            "pytest-xdist",
            "ruff",
            "types-cffi",
            "types-setuptools",
        ],
    },
    zip_safe=False,
)
