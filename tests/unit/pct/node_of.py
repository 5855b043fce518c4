"""What tests say to a node: bebopd's answer, a load with a signed credential."""

from __future__ import annotations

import msgspec

from native.ids import PortalId, Principal, PrincipalKind
from native.limits import Limits
from native.machine import MessageReceived
from native.port.port import Port
from native.wire import alloc, codec, status
from native.wire.placed import GrantedNode, JobNodes
from pct.node import Node
from tests.unit.pct.job_of import JOB_ID, YOD, credential, load_message, pct

BEBOPD = PortalId(1, 1)
DAEMON = Principal(PrincipalKind.PARTITION, 0)
OWNER = Principal(PrincipalKind.JOB, 1000, JOB_ID)
UNIX_TIME = 5000.0
LIMITS = Limits(notice_s=1e6)  # nobody waits for so long


def a_node(wanted=-1, slots=4, features=(), **limits) -> Node:
    return Node(
        name="n20",
        slots=slots,
        address=pct(0),
        bebopd=BEBOPD,
        wanted=wanted,
        incarnation=99,
        limits=msgspec.structs.replace(LIMITS, **limits),
        is_signed=lambda data, mac: mac == b"mac of " + data[:4],
        unix_time=lambda: UNIX_TIME,
        features=features,
    )


def accepted(number=20, epoch=77, heartbeat_s=10.0):
    return MessageReceived(BEBOPD, DAEMON, status.Accepted(number, epoch, heartbeat_s))


def ready(slots=4, features=(), **limits) -> Node:
    """A node that bebopd has accepted as number 20."""
    machine = a_node(slots=slots, features=features, **limits)
    machine.begin(0.0)
    machine.handle(accepted(), 0.0)
    return machine


def granted(size=1, ranks_each=1, place=0, **fields):
    """A load with a signed credential; ``credential`` fields by their name."""
    names = {"job_id", "uid", "epoch", "expires", "nodes_digest", "attempt"}
    of_credential = {
        name.removeprefix("of_"): value
        for name, value in fields.items()
        if name.startswith("of_") and name.removeprefix("of_") in names
    }
    own = {name: value for name, value in fields.items() if not name.startswith("of_")}
    digest = codec.nodes_digest(load_message(size, place, ranks_each, **own).nodes)
    of_credential.setdefault("nodes_digest", digest)
    data = codec.encode_part(credential(size, ranks_each, **of_credential))
    proof = {"credential": data, "credential_mac": b"mac of " + data[:4]}
    return load_message(size, place, ranks_each, **{**proof, **own})


def received(message, principal=OWNER, source=YOD):
    return MessageReceived(source, principal, message)


def node_at(port: Port, bebopd: Port, slots: int, limits: Limits, **more) -> Node:
    """Node 20, which takes any credential, at a port."""
    return Node(
        name="n20",
        slots=slots,
        address=port.id,
        bebopd=bebopd.id,
        wanted=20,
        incarnation=1,
        limits=limits,
        is_signed=lambda data, mac: True,
        unix_time=lambda: 0.0,
        **more,
    )


def credential_for(job_id: int, *nodes: GrantedNode, uid: int = 0, gid: int = 0) -> bytes:
    """That for a slot on each of these nodes, encoded."""
    return codec.encode_part(
        alloc.Credential(
            job_id=job_id,
            uid=uid,
            gid=gid,
            groups=(),
            epoch=77,
            expires=1 << 40,
            nodes_digest=codec.nodes_digest(JobNodes.of(nodes)),
        )
    )
