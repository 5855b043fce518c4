"""Which slots a request takes from jobs that stand still for it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from allocator.jobs.job import Job
from allocator.lending.loans import lent
from allocator.nodes.table import NodeTable
from native.wire.placed import NodeLoan, NodeSpan


def left_of(job: Job, nodes: NodeTable) -> dict[int, int]:
    """The slots of a job that nobody else has, by the nodes on which they could be given."""
    left: dict[int, int] = {}
    for number, holding in job.holdings.items():
        node = nodes.get(number)
        if node is not None and node.is_open:
            left[number] = holding.slots - lent(node.loans, (job.job_id,))
    return left


def loans_for(
    spans: Iterable[NodeSpan], nodes: NodeTable, lenders: Sequence[Job]
) -> tuple[NodeLoan, ...]:
    """What a job takes from others where the slots that it is given are not free.

    Args:
        lenders: that stand still for it, or are to.
    """
    found: list[NodeLoan] = []
    left = {job.job_id: left_of(job, nodes) for job in lenders}
    for span in sorted(spans, key=lambda span: span.node):
        for number in range(span.node, span.node + span.count):
            node = nodes.get(number)
            lacks = span.slots - (node.free() if node is not None else 0)
            for job in lenders:
                slots = min(lacks, left[job.job_id].get(number, 0))
                if slots > 0:
                    lacks -= slots
                    _add(found, NodeLoan(number, 1, job.job_id, job.attempt, slots))
            assert lacks <= 0, (span, lenders)
    return tuple(found)


def _add(found: list[NodeLoan], loan: NodeLoan) -> None:
    """Add one, with the last if it goes on with it."""
    last = found[-1] if found else None
    if last is not None and replace(last, node=last.node + last.count, count=1) == loan:
        found[-1] = replace(last, count=last.count + 1)
    else:
        found.append(loan)
