"""The file that names a site's hooks: /etc/yod/hooks.toml, or YOD_HOOKS."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from typing import TYPE_CHECKING

from native.allocated import HOOKS_VARIABLE
from native.errors import UsageError
from native.text import shown

if TYPE_CHECKING:
    from native.hooks import Hooks

DEFAULT = "/etc/yod/hooks.toml"
BYTES_MAX = 1 << 20


def read(environment: Mapping[str, str]) -> Hooks | None:
    """The site's hooks and options; None: there is no file.

    Raises:
        UsageError: the file is named and not there, or says what no manifest says.
    """
    named = environment.get(HOOKS_VARIABLE, "")
    path = named or DEFAULT
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(BYTES_MAX + 1)
    except FileNotFoundError:
        if named:
            raise UsageError(f"{HOOKS_VARIABLE}: there is no file {shown(path)}") from None
        return None
    except OSError as error:
        raise UsageError(f"{shown(path)}: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"{shown(path)}: not UTF-8: {error}") from None
    if len(text) > BYTES_MAX:
        raise UsageError(f"{shown(path)}: longer than {BYTES_MAX} bytes")
    from native.hooks import parse  # few sites have any

    return parse(text, path)


def demand_programs(found: Hooks, is_for_root: bool) -> None:
    """Each hook's program is there; where root runs it, nobody but root may change it.

    Raises:
        UsageError: names the file, and what is wrong with it.
    """
    for hook in found.hooks:
        where = f"{shown(found.path)}: hook {hook.name}: {shown(hook.program)}"
        try:
            mode = os.stat(hook.program).st_mode
        except OSError as error:
            raise UsageError(f"{where}: {error.strerror}") from None
        if not stat.S_ISREG(mode) or not mode & 0o111:
            raise UsageError(f"{where}: not an executable file")
        if is_for_root:
            _demand_roots(hook.program, where)
    if is_for_root:
        _demand_roots(found.path, shown(found.path))


def _demand_roots(path: str, where: str) -> None:
    """The file and the directories above it are root's, and others cannot replace it."""
    each = os.path.realpath(path)
    while True:
        status = os.stat(each)
        is_open = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not (
            stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
        )
        if status.st_uid != 0 or is_open:
            raise UsageError(f"{where}: {shown(each)} must be root's, and no other may write it")
        if each == "/":
            return
        each = os.path.dirname(each)
