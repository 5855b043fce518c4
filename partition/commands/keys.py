"""The keys of users, of yodctl."""

from __future__ import annotations

import os
import pwd

from native.errors import PartitionError, UsageError
from native.host import keyfile
from native.host.keyfile import read_partition_key, user_key_line
from native.text import shown
from partition.find import state


def user_key(user: str, key_file: str | None) -> str:
    """The key of a user for the partition, as the line of a file.

    Args:
        user: a name or a uid.
        key_file: of the partition; None: that of `yodctl up`, else of a site.

    Raises:
        UsageError: there is no such user.
        PartitionError: there is no key of a partition.
    """
    if key_file == "":
        raise UsageError("--key-file needs a value, got an empty one")
    if key_file is None:
        found = state.load()
        key_file = found.key_file if found is not None else keyfile.default(os.environ)
        if not key_file:
            raise PartitionError("no partition is up; name its key with --key-file")
    try:
        uid = int(user) if user.isdecimal() else pwd.getpwnam(user).pw_uid
    except KeyError:
        raise UsageError(f"no user {shown(user)} here") from None
    try:
        partition_key = read_partition_key(key_file)
    except FileNotFoundError as error:
        raise PartitionError(f"key file {shown(key_file)}: {error.strerror}") from None
    return user_key_line(partition_key, uid)
