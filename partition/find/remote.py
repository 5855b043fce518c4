"""A partition of daemons, as yod reaches it."""

from __future__ import annotations

import os

from native.errors import PartitionError
from native.host import keyfile
from native.host.keyfile import read_any_key
from native.ids import PortalId
from native.limits import Limits
from native.port.address import facing, numeric
from native.port.portals import JobKey, LocalKey, PartitionKey, PortalsPort, UserKey
from native.text import shown
from native.wire.alloc import Grant
from native.wire.placed import GrantedNode
from partition.find.discover import Where
from yod.plan.prepared import Reach

_NIDS_IN_TABLE = 1 << 24  # below it a nid is no IPv4 address


class RemotePartition:
    """yod's port to a partition, and the id of its bebopd.

    Attributes:
        bebopd: the id to send requests to.
        port: yod's port; it does not listen.
    """

    def __init__(self, reach: Reach, limits: Limits) -> None:
        self.port = PortalsPort(
            connect_timeout_s=limits.connect_s,
            liveness_s=limits.liveness_s,
            sending_bytes=limits.sending_bytes,
        )
        self.bebopd: PortalId = self.port.resolve(reach.address)
        self.port.use_key(self.bebopd, _key(reach))

    def use_grant(self, grant: Grant) -> None:
        """Use the job's key for connections from now on."""
        self.port.use_key(None, JobKey(grant.job_id, grant.uid, grant.expires, grant.job_key))
        if grant.addresses:
            self.port.set_addresses(dict(grant.addresses))

    def close(self) -> None:
        """Send what is queued, and close the port."""
        self.port.close()


def again(reach: Reach, limits: Limits, grant: Grant) -> RemotePartition:
    """Another port to the partition that has given a grant."""
    return RemotePartition(reach, limits)


def reach(where: Where) -> Reach:
    """Look up the address, and read the key, which may take long.

    Raises:
        PartitionError: no key is known.
        KeyFileError: the key file is missing, or contains no key.
        UsageError: the host's name is not known.
    """
    address = numeric(where.address)
    if address.startswith("unix:"):
        return Reach(address)
    if not where.key_file:
        place = shown(keyfile.place(os.environ))
        raise PartitionError(
            f"{where.name}: a key is needed for host:port; have one in {place}, "
            "or name its file in YOD_KEY_FILE, or use unix:PATH on bebopd's host"
        )
    uid, key = read_any_key(where.key_file)
    return Reach(address, key, uid)


def facing_node(node: GrantedNode) -> str:
    """The address of this host that a node sees.

    Raises:
        PartitionError: the nodes have no IPv4 addresses.
    """
    if node.nid < _NIDS_IN_TABLE:
        raise PartitionError(f"node {node.node} ({node.name}) has no IPv4 address")
    return facing(str(PortalId(node.nid, node.pid)))


def _key(reach: Reach) -> LocalKey | PartitionKey | UserKey:
    if not reach.key:
        return LocalKey()
    return PartitionKey(reach.key) if reach.key_uid is None else UserKey(reach.key_uid, reach.key)
