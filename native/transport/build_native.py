"""Build script of the cffi extension ``native._native`` (run by setup.py).

As a program it builds the extension in place, for work on a checkout:
``python native/transport/build_native.py``.
"""

from pathlib import Path

from cffi import FFI

HERE = Path(__file__).resolve().parent
NATIVE = HERE.parent
ROOT = NATIVE.parent
DEVICES = NATIVE / "keeper" / "devices"
# Sources name headers by file name alone: every folder that has some is searched.
INCLUDED = [HERE / "include", *sorted(HERE.glob("src/*/")), NATIVE / "host", DEVICES]
HEADERS = sorted([HERE / "cdef.h", *(path for folder in INCLUDED for path in folder.glob("*.h"))])
SOURCES = sorted([*HERE.glob("src/*/ptl_*.c"), *NATIVE.glob("host/yod_*.c"), DEVICES / "devices.c"])

ffibuilder = FFI()
ffibuilder.cdef((HERE / "cdef.h").read_text())
ffibuilder.set_source(
    "native._native",
    '#include "portals4_ext.h"\n#include "yod_files.h"\n#include "devices.h"\n',
    sources=[str(path.relative_to(ROOT)) for path in SOURCES],
    include_dirs=[str(path.relative_to(ROOT)) for path in INCLUDED],
    define_macros=[("_GNU_SOURCE", None), ("PTL_NO_THREAD", None)],
    extra_compile_args=["-std=gnu11", "-O2", "-Wall", "-Wextra", "-fvisibility=hidden"],
    # The same names live in libportals.so, perhaps in the same process.
    extra_link_args=["-Wl,-Bsymbolic"],
    # distutils rebuilds when one of these is newer; without them only for .c files.
    depends=[str(path.relative_to(ROOT)) for path in HEADERS],
    py_limited_api=True,
)


def build_in_place() -> None:
    """Make ``native/_native.abi3.so`` of this checkout; intermediate files go to build/."""
    import os

    from setuptools import Distribution

    os.chdir(ROOT)
    build = Path("build/native")
    build.mkdir(parents=True, exist_ok=True)
    (build / "__init__.py").touch()
    distribution = Distribution({"ext_modules": [ffibuilder.distutils_extension(str(build))]})
    command = distribution.get_command_obj("build_ext")
    command.ensure_finalized()
    command.build_lib = "."
    command.build_temp = "build"
    command.run()


if __name__ == "__main__":
    build_in_place()
