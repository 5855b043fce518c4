"""The socket that all users of a host look for: who may have made its directory."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from native.host import sitedirs


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {sitedirs.VARIABLE: str(tmp_path / "run")}


def test_without_a_word_it_is_below_run() -> None:
    assert sitedirs.socket_path({}) == "/run/yod/bebopd.sock"


def test_the_directory_is_made_for_all_to_search_whatever_the_umask(
    environment: dict[str, str], tmp_path: Path
) -> None:
    before = os.umask(0o077)
    try:
        found = sitedirs.for_root(environment)
    finally:
        os.umask(before)
    assert found == (f"{tmp_path}/run/bebopd.sock", "")
    assert (tmp_path / "run").stat().st_mode & 0o777 == 0o755


def test_a_directory_that_others_can_write_is_not_taken(
    environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run").chmod(0o777)
    assert sitedirs.for_root(environment) == ("", f"{tmp_path}/run: others can write it")


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    environment = {sitedirs.VARIABLE: str(tmp_path / "none/run")}
    why = f"{tmp_path}/none/run: No such file or directory"
    assert sitedirs.for_root(environment) == ("", why)


def test_a_socket_at_which_another_process_listens_is_left_to_it(
    environment: dict[str, str],
) -> None:
    path, _ = sitedirs.for_root(environment)
    assert not sitedirs.has_socket(path)
    with socket.socket(socket.AF_UNIX) as end:
        end.bind(path)
        assert sitedirs.has_socket(path)
        assert sitedirs.for_root(environment) == (path, "")  # nobody listens: it is taken over
        end.listen()
        assert sitedirs.for_root(environment)[1] == f"{path}: another bebopd listens there"
