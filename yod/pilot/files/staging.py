"""Does what a staging directive says. It may wait for the file system, so call it aside.

What a path leads to is looked at before anything is done: a link in a sandbox does not let a
directive leave it.
"""

from __future__ import annotations

import os
import shutil
import tarfile
import time
from collections.abc import Mapping

from native.errors import UsageError, YodError
from yod.pilot.files.archive import unpack
from yod.pilot.files.attempt import Attempt
from yod.pilot.model import staging
from yod.pilot.model.staging import Directive, Place


def path_of(place: Place, roots: Mapping[str, str]) -> str:
    """The path of a place.

    Args:
        roots: schema -> directory.

    Raises:
        UsageError: there is no such place here, or the path leaves it.
    """
    if place.schema == "file":
        return place.path
    root = roots.get(place.schema)
    if root is None:
        raise UsageError(f"{place}: there is no {place.schema}:// here")
    path = os.path.normpath(os.path.join(root, place.path))
    if place.schema in ("client", "pwd"):
        return path  # the user's own directory
    inside = os.path.realpath(root)
    real = os.path.realpath(os.path.dirname(path) if path != inside else path)
    if real != inside and not real.startswith(inside.rstrip("/") + "/"):
        raise UsageError(f"{place}: the path leaves {place.schema}:// by a link")
    return path


def bring(directive: Directive, roots: Mapping[str, str]) -> str:
    """Do one directive.

    Returns:
        Why it could not be done; empty: it is.
    """
    try:
        _bring(directive, roots)
    except (YodError, OSError, tarfile.TarError, shutil.Error) as error:
        text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return f"{directive.source} > {directive.target}: {text}"
    return ""


def bring_all(directives: list[Directive], roots: Mapping[str, str]) -> list[Attempt]:
    """Do directives in their order, up to the first that fails and may not.

    Returns:
        Those that were tried.
    """
    tried: list[Attempt] = []
    for directive in directives:
        began = time.time()
        failure = bring(directive, roots)
        tried.append(Attempt(directive, failure, began, time.time()))
        if failure and directive.is_fatal:
            break
    return tried


def _bring(directive: Directive, roots: Mapping[str, str]) -> None:
    target = path_of(directive.target, roots)
    if directive.action == staging.DOWNLOAD:
        _parents(directive, target)
        _download(directive.source.path, target)
        return
    source = path_of(directive.source, roots)
    if not os.path.lexists(source):
        raise UsageError("the source is missing")
    _parents(directive, target)
    if os.path.isdir(target) and not os.path.islink(target):
        target = os.path.join(target, os.path.basename(source))
    match directive.action:
        case staging.LINK:
            if os.path.islink(target):
                os.unlink(target)
            os.symlink(os.path.abspath(source), target)
        case staging.MOVE:
            shutil.move(source, target)
        case staging.TARBALL if tarfile.is_tarfile(source):
            with tarfile.open(source) as archive:
                unpack(archive, os.path.dirname(target))
        case _:
            _copy(source, target, directive)


def _copy(source: str, target: str, directive: Directive) -> None:
    if not os.path.isdir(source):
        shutil.copy(source, target)
    elif directive.flags & staging.RECURSIVE:
        shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
    else:
        raise UsageError("the source is a directory, and RECURSIVE is not set")


def _parents(directive: Directive, target: str) -> None:
    if directive.flags & staging.CREATE_PARENTS:
        os.makedirs(os.path.dirname(target), exist_ok=True)


def _download(address: str, target: str) -> None:
    from http.client import HTTPException
    from urllib.request import urlopen

    try:
        with urlopen(address, timeout=60) as answer, open(target, "wb") as file:
            shutil.copyfileobj(answer, file)
            missing = getattr(answer, "length", 0)  # an answer that is cut off is no error there
    except (HTTPException, ValueError) as error:  # it is no address, or no such server
        raise YodError(str(error).strip()) from None
    if missing:
        raise YodError(f"the last {missing} bytes have not come")
