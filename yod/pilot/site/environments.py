"""Environments that tasks name: made on the host of the application, in the sandbox of a pilot."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from native.errors import UsageError, YodError
from yod.pilot.model.command import SHELL, environment_file

_KINDS = ("venv", "virtualenv", "shell")
_KEYS = {"type": str, "version": str, "path": str, "setup": (list, tuple), "pre_exec": (list, str)}


def check(name: str, spec: Mapping[str, Any], where: str) -> None:
    """Check what is said of an environment.

    Raises:
        UsageError: something is wrong; the text has the key.
    """
    where = f"{where}: environment {name}"
    if not name or "/" in name or name.startswith("."):
        raise UsageError(f"{where}: the name cannot be that of a file")
    for key, value in spec.items():
        if key not in _KEYS:
            raise UsageError(f"{where}: there is no key {key!r}; known are {', '.join(_KEYS)}")
        if value is not None and not isinstance(value, _KEYS[key]):  # type: ignore[arg-type]
            raise UsageError(f"{where}: {key!r} is {value!r}, which is of a wrong type")
    kind = spec.get("type") or "venv"
    if kind not in _KINDS:
        raise UsageError(
            f"{where}: 'type' is {kind!r}; known are {', '.join(_KINDS)}: make another one first,"
            " and give its path as 'named_env'"
        )


def make(sandbox: str, name: str, spec: Mapping[str, Any]) -> None:
    """Make an environment, and wait for it. One whose path is there is taken as it is.

    Raises:
        YodError: it cannot be made.
    """
    activating = environment_file(sandbox, name)
    log = f"{activating.removesuffix('.sh')}.log"
    before = spec.get("pre_exec") or []
    lines = [before] if isinstance(before, str) else [str(each) for each in before]
    making = ["set -e", *lines]
    if (spec.get("type") or "venv") != "shell":
        path = os.path.abspath(spec.get("path") or activating.removesuffix(".sh"))
        python = f"python{spec['version']}" if spec.get("version") else sys.executable
        packages = [str(each) for each in spec.get("setup") or ()]
        lines.append(_words(".", f"{path}/bin/activate"))
        bare = [] if packages else ["--without-pip"]
        make_it = [_words(python, "-m", "venv", *bare, path), lines[-1]]
        if packages:
            make_it.append(_words("python", "-m", "pip", "install", "--quiet", *packages))
        making += [f"if ! test -e {_words(path)}/bin/activate; then", *make_it, "fi"]
    try:
        os.makedirs(os.path.dirname(activating), exist_ok=True)
        with open(log, "wb") as file:
            done = subprocess.run(
                [SHELL, "-c", "\n".join(making)],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                check=False,
            )
        with open(log, "rb") as file:
            last = (file.read().decode(errors="replace").strip().splitlines() or ["no word"])[-1]
        if done.returncode:
            raise YodError(f"environment {name} cannot be made: {last}; see {log}")
        with open(activating, "w", encoding="utf-8") as text:
            text.write("\n".join([*lines, ""]))
    except OSError as error:
        raise YodError(f"environment {name}: {error.filename}: {error.strerror}") from None


def _words(*words: str) -> str:
    import shlex

    return shlex.join(words)
