"""Directories of pilots: each below its session's, or below one of its own, with a link to it.

The reference puts a pilot whose ``sandbox`` is given below ``radical.pilot.sandbox`` there, with
the session's name between.
"""

from __future__ import annotations

import os
from contextlib import suppress

from native.errors import UsageError, YodError

BELOW = "radical.pilot.sandbox"
ENVIRONMENTS = "env"  # what may be there before the pilot: yod.pilot.model.command


class Places:
    """The directories of a pilot or a task, by the reference's names."""

    __slots__ = ()  # a task has no room to waste

    endpoint_fs = "file://localhost/"

    @property
    def pilot_sandbox(self) -> str:
        """The directory of the pilot."""
        raise NotImplementedError

    @property
    def session_sandbox(self) -> str:
        """The directory of its session."""
        return os.path.dirname(self.pilot_sandbox)

    @property
    def resource_sandbox(self) -> str:
        """The directory with the sessions."""
        return os.path.dirname(self.session_sandbox)

    @property
    def client_sandbox(self) -> str:
        """The directory of the application."""
        return os.getcwd()


def sandbox_of(own: str, session_path: str, pilot_uid: str) -> str:
    """The directory of a pilot.

    Args:
        own: its ``sandbox``, as :func:`place_of` has it; empty: it has none of its own.
    """
    if not own:
        return os.path.join(session_path, pilot_uid)
    return os.path.join(own, BELOW, os.path.basename(session_path), pilot_uid)


def place_of(own: str, pilot_uid: str) -> str:
    """The value of ``sandbox`` without variables and ``~``.

    Raises:
        UsageError: it names a variable, or a user, that there is not.
    """
    text = os.path.expanduser(os.path.expandvars(own))
    if not os.path.isabs(text) or "$" in text:
        raise UsageError(f"pilot {pilot_uid}: 'sandbox' is {own!r}: nobody knows where {text} is")
    return text


def make(sandbox: str, session_path: str, pilot_uid: str) -> None:
    """Make the directory of a pilot that has a ``sandbox`` of its own, and the link to it.

    Raises:
        YodError: it cannot be made.
    """
    link = os.path.join(session_path, pilot_uid)
    if link == sandbox:
        return  # its agent makes it
    try:
        os.makedirs(sandbox, exist_ok=True)
        if set(os.listdir(sandbox)) - {ENVIRONMENTS}:
            raise YodError(f"'sandbox': {sandbox} is that of another session of this name")
        with suppress(FileExistsError):
            os.symlink(sandbox, link)
    except OSError as error:
        raise YodError(f"'sandbox': {error.filename or sandbox}: {error.strerror}") from None


def remove(sandbox: str, session_path: str, pilot_uid: str) -> None:
    """Remove it, with all that is in it; one elsewhere to which there is no link is not ours."""
    import shutil

    link = os.path.join(session_path, pilot_uid)
    is_elsewhere = link != sandbox
    if is_elsewhere and not os.path.islink(link):
        return
    shutil.rmtree(sandbox, ignore_errors=True)
    if not is_elsewhere:
        return
    with suppress(OSError):
        os.unlink(link)
    with suppress(OSError):  # another pilot may be there
        os.rmdir(os.path.dirname(sandbox))
