"""An allocation's owner who has stolen its key, and signs what they like."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.nobody import as_nobody
from tests.support.partition import BIN, ROOT, finish

pytestmark = pytest.mark.usefixtures("needs_root")

# A launch of the usual kind, but for the grant: it is forged on its way to the PCT.
FORGES = """
import os
import sys
from pathlib import Path

from msgspec.structs import replace

from native import auth
from native.wire import alloc, codec
from native.wire.placed import JobNodes, NodeSpan
from native.wire.runs import JobRuns, RunRange
from yod import api
from yod.launch import loading, machine
from yod.launch.phases import Phase

how = sys.argv[1]
honest = loading.Loading.granted
grants = []


def stolen():
    mine = os.environ["YOD_PARTITION"].encode()
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "cmdline").read_bytes().split(b"\\0")
            if b"--in-job" in words and mine in words:
                entries = (place / "environ").read_bytes().split(b"\\0")
        except OSError:
            continue
        for entry in entries if b"--in-job" in words and mine in words else ():
            if entry.startswith(b"YOD_PCT_KEY="):
                return bytes.fromhex(entry.partition(b"=")[2].decode())


def signed(grant, key, **fields):
    credential = codec.encode_part(replace(codec.decode_credential(grant.credential), **fields))
    return replace(grant, credential=credential, credential_mac=auth.sign(key, credential))


def granted(self, grant, now):
    grants.append(grant)
    match how:
        case "forged":
            grant = signed(grant, os.urandom(32))
        case "uid":
            key = stolen()
            proof = auth.derive_job_key(key, grant.job_id, 0, grant.expires)
            grant = replace(signed(grant, key, uid=0, gid=0, groups=(0,)), uid=0, job_key=proof)
        case "wide":
            spans = tuple(NodeSpan(span.node, span.count, 100) for span in grant.nodes.spans)
            nodes = JobNodes(grant.nodes.rules, spans)
            grant = signed(grant, stolen(), nodes_digest=codec.nodes_digest(nodes))
            grant = replace(grant, nodes=nodes, runs=JobRuns((RunRange(0, 2),)))
        case "replayed" if len(grants) > 1:
            grant = grants[0]
    return honest(self, grant, now)


row = machine.TABLE[Phase.ALLOCATING]
assert row[alloc.Grant] is honest
row[alloc.Grant] = granted
machine.OWNER[granted] = loading.Loading
for _ in range(2 if how == "replayed" else 1):
    done = api.run(["id", "-u"], size=2, capture_output=True, quiet=True)
print(done.exit_status, done.stdout, *done.messages, done.reason, sep="\\n")
"""


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("forged", "the credential is not this partition's"),
        ("uid", "cannot become uid 0: this is uid 65534"),
        ("wide", "100 slots granted, 2 of 2 are free"),
        ("replayed", "is no longer valid"),
    ],
)
def test_a_credential_opens_no_more_than_the_allocation_has(embedded, theirs, how, why):
    program = Path(theirs, "forges.py")
    program.write_text(FORGES)
    words = ("alloc", "-quiet", "-sz", "2", sys.executable, program, how)
    done = finish(
        as_nobody(embedded, theirs, BIN / "yodjob", *words, env={"PYTHONPATH": str(ROOT)})
    )
    assert done.status == 0, done
    status, out, *said = done.out.splitlines()
    assert (status, out) == ("125", "b''"), done
    assert why in "\n".join(said), done
