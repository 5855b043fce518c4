"""What a node is taken to have a fabric by, and what a user may have said of one."""

import os
import shutil
from pathlib import Path

import pytest

from native.host.files import Owner
from pct.host.fabrics import (
    ACCELERATORS,
    CLASSES,
    DEVICES,
    MEMORY,
    SETTINGS,
    devices_may_be_here,
    may_be_chosen,
    may_be_here,
)

MYSELF = Owner(os.getuid(), os.getgid())


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """The root of a node with Ethernet alone."""
    (tmp_path / "sys/class/net/eth0").mkdir(parents=True)
    (tmp_path / "dev/shm").mkdir(parents=True)
    return tmp_path


def test_a_node_with_ethernet_alone_has_none(plain):
    assert not may_be_here(str(plain))


@pytest.mark.parametrize("name", CLASSES)
def test_a_device_of_a_known_class_is_one(plain, name):
    (plain / "sys/class" / name / "device_0").mkdir(parents=True)
    assert may_be_here(str(plain))


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_without_a_device_is_none(plain, name):
    (plain / "sys/class" / name).mkdir()
    assert not may_be_here(str(plain))


@pytest.mark.parametrize("name", DEVICES)
def test_a_device_file_of_a_known_name_is_one(plain, name):
    (plain / "dev" / f"{name}_0").touch()
    assert may_be_here(str(plain))


@pytest.mark.parametrize("name", [*DEVICES, *ACCELERATORS, *MEMORY])
def test_a_fabric_an_accelerator_or_a_way_into_memory_is_a_device(plain, name):
    assert not devices_may_be_here(str(plain))
    (plain / "dev" / f"{name}_0").touch()
    assert devices_may_be_here(str(plain))


def test_a_screen_is_no_device_and_what_renders_without_one_is(plain):
    (plain / "dev/dri").mkdir()
    (plain / "dev/dri/card0").touch()
    assert not devices_may_be_here(str(plain))
    (plain / "dev/dri/renderD128").touch()
    assert devices_may_be_here(str(plain))


@pytest.mark.parametrize("lost", ["sys/class/net", "sys", "dev"])
def test_a_node_that_cannot_tell_may_have_one(plain, lost):
    shutil.rmtree(plain / lost)
    assert may_be_here(str(plain))
    assert devices_may_be_here(str(plain))


def test_a_user_without_a_file_of_settings_asks_for_none(tmp_path):
    assert not may_be_chosen(os.fsencode(tmp_path), MYSELF)
    (tmp_path / ".openmpi").touch()  # no directory
    assert not may_be_chosen(os.fsencode(tmp_path), MYSELF)


def test_a_user_with_a_file_of_settings_may_ask_for_one(tmp_path):
    settings = tmp_path / os.fsdecode(SETTINGS)
    settings.parent.mkdir()
    settings.touch()
    assert may_be_chosen(os.fsencode(tmp_path), MYSELF)


@pytest.mark.parametrize("home", [b"", b"home", b"/" + b"x" * 4096])
def test_a_user_whose_home_cannot_be_looked_into_may_ask_for_one(home):
    assert may_be_chosen(home, MYSELF)
