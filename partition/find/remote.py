"""A partition of daemons, as yod reaches it."""

from __future__ import annotations

import os
import time

from native.errors import PartitionError
from native.host import keyfile
from native.host.keyfile import KEY_BYTES, read_any_key
from native.ids import PortalId
from native.limits import Limits
from native.port.address import facing, numeric
from native.port.portals import (
    AnyKey,
    JobKey,
    LocalKey,
    MungeKey,
    PartitionKey,
    PortalsPort,
    UserKey,
)
from native.text import shown
from native.wire.alloc import Grant
from native.wire.placed import GrantedNode
from partition.find.discover import Where
from yod.plan.reach import Reach

CREDENTIAL_S = 200.0  # munged takes one for 300 s
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
        if reach.credential:
            self.port.renew_key(self.bebopd, lambda: _key(_renewed(reach)))
            if time.time() > reach.made + CREDENTIAL_S:
                reach = _renewed(reach)
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
        return _by_munge(where, address)
    uid, key = read_any_key(where.key_file)
    return Reach(address, key, uid)


def _renewed(reach: Reach) -> Reach:
    """With a credential that has not been used."""
    return _by_munge(Where(reach.address), reach.address)


def _by_munge(where: Where, address: str) -> Reach:
    """By a credential of MUNGE, where this host has a munged.

    Raises:
        PartitionError: it has none, or that one does not answer.
    """
    from native.identity import munge  # loads ctypes

    if not (socket := munge.socket_path(os.environ)):
        place = shown(keyfile.place(os.environ))
        raise PartitionError(
            f"{where.name}: a key is needed for host:port; have one in {place}, or name its file"
            " in YOD_KEY_FILE, or use MUNGE, or unix:PATH on bebopd's host"
        )
    secret = os.urandom(KEY_BYTES)
    try:
        # root's bebopd has users of other hosts, and no other one.
        credential = munge.encode(munge.LABEL + secret, 0, socket)
    except munge.MungeError as error:
        raise PartitionError(
            f"{where.name}: MUNGE does not prove who you are: {error}; is munged up?"
        ) from None
    return Reach(address, secret, os.geteuid(), credential, time.time())


def facing_node(node: GrantedNode) -> str:
    """The address of this host that a node sees.

    Raises:
        PartitionError: the nodes have no IPv4 addresses.
    """
    if node.nid < _NIDS_IN_TABLE:
        raise PartitionError(f"node {node.node} ({node.name}) has no IPv4 address")
    return facing(str(PortalId(node.nid, node.pid)))


def _key(reach: Reach) -> AnyKey:
    if not reach.key:
        return LocalKey()
    if reach.credential:
        assert reach.key_uid is not None
        return MungeKey(reach.key_uid, reach.key, reach.credential)
    return PartitionKey(reach.key) if reach.key_uid is None else UserKey(reach.key_uid, reach.key)
