"""A partition of daemons, as one yod reaches it."""

from __future__ import annotations

import os

from native.address import numeric
from native.errors import PartitionError
from native.ids import PortalId
from native.limits import Limits
from native.portals_port import JobKey, LocalKey, PartitionKey, PortalsPort, UserKey
from native.wire.alloc import Grant
from partition.discover import KEY_BYTES, Where

USER_KEY = b"user "  # a user's key file: "user UID HEX"


class RemotePartition:
    """A port of our own, and bebopd at the end of it.

    Attributes:
        bebopd: where to send requests.
        port: yod's port; it does not listen.
    """

    def __init__(self, where: Where, limits: Limits) -> None:
        self.port = PortalsPort(connect_timeout_s=limits.connect_s, liveness_s=limits.liveness_s)
        self.bebopd: PortalId = self.port.resolve(numeric(where.address))
        self.port.use_key(self.bebopd, _key(where))

    def use_grant(self, grant: Grant) -> None:
        """From now on open connections with the job's key."""
        self.port.use_key(None, JobKey(grant.job_id, grant.uid, grant.expires, grant.job_key))
        if grant.addresses:
            self.port.set_addresses(dict(grant.addresses))

    def close(self) -> None:
        """Flush, and leave."""
        self.port.close()


def _key(where: Where) -> LocalKey | PartitionKey | UserKey:
    """What proves us to bebopd: over a Unix socket the kernel does.

    Raises:
        PartitionError: the key file is not there, or is none.
    """
    if where.address.startswith("unix:"):
        return LocalKey()
    if not where.key_file:
        raise PartitionError(
            f"{where.name}: a key is needed for host:port; "
            "name its file in YOD_KEY_FILE, or use unix:PATH on bebopd's host"
        )
    try:
        with open(where.key_file, "rb") as file:
            is_open = bool(os.fstat(file.fileno()).st_mode & 0o077)
            data = file.read(256)
    except OSError as error:
        raise PartitionError(f"key file {where.key_file}: {error.strerror}") from None
    if is_open:
        raise PartitionError(f"key file {where.key_file}: others may read it; chmod 600 it")
    if len(data) == KEY_BYTES:
        return PartitionKey(data)
    words = data.split()
    try:
        if data.startswith(USER_KEY) and len(words) == 3:
            return UserKey(int(words[1]), bytes.fromhex(words[2].decode()))
    except ValueError:
        pass
    raise PartitionError(f"key file {where.key_file}: neither a partition's key nor a user's")
