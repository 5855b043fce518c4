"""Key files: whose they are, and what they hold."""

from pathlib import Path

import pytest

from native import auth
from native.host import keyfile
from native.host.keyfile import KeyFileError, read_any_key, user_key_line

KEY = bytes(range(32))


def write(path: Path, data: bytes, mode: int = 0o600) -> str:
    path.write_bytes(data)
    path.chmod(mode)
    return str(path)


def test_a_partitions_key_is_32_bytes(tmp_path: Path) -> None:
    assert read_any_key(write(tmp_path / "key", KEY)) == (None, KEY)


def test_a_users_key_names_the_user_and_follows_from_the_partitions(tmp_path: Path) -> None:
    line = user_key_line(KEY, 1000)
    expected = (1000, auth.derive_user_key(KEY, 1000))
    assert read_any_key(write(tmp_path / "key", line.encode())) == expected


@pytest.mark.parametrize(
    "data", [b"", KEY + b"x", b"user 1000", b"user x 00", b"user 1 zz", b"user 1 00", b"\xff" * 99]
)
def test_anything_else_is_neither(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(KeyFileError, match="neither a partition's key nor a user's"):
        read_any_key(write(tmp_path / "key", data))


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError, match="mode 0640 lets others use it: chmod 600"):
        read_any_key(write(tmp_path / "key", KEY, 0o640))


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError, match=f"{tmp_path}/key: No such file or directory"):
        read_any_key(str(tmp_path / "key"))


def test_a_users_key_is_in_their_configuration_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    home = {"HOME": str(tmp_path)}
    assert keyfile.place(home) == f"{tmp_path}/.config/yod/key"
    assert keyfile.place({**home, "XDG_CONFIG_HOME": "relative"}) == f"{tmp_path}/.config/yod/key"
    chosen = {**home, "XDG_CONFIG_HOME": str(tmp_path / "c")}
    assert keyfile.default(chosen) == ""
    (tmp_path / "c/yod").mkdir(parents=True)
    path = write(tmp_path / "c/yod/key", KEY)
    assert keyfile.default(chosen) == path == keyfile.place(chosen)


def test_roots_key_is_the_sites(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert keyfile.place({"XDG_CONFIG_HOME": "/c"}) == "/etc/yod/key"
