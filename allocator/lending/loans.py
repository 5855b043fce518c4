"""Slots that jobs have from others, on one node. Pure.

A job that is suspended for another one keeps its slots, and lends them: both hold them, and they
count once. What it does not lend is nobody's meanwhile. When the borrower has left the node the
lender has them alone, and when the lender leaves first they are the borrower's own.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from types import MappingProxyType
from typing import Protocol

from msgspec.structs import replace

from native.wire.placed import NodeLoan

Loans = Mapping[int, tuple[NodeLoan, ...]]  # by the borrower, each of this node alone
NO_LOANS: Loans = MappingProxyType({})


class LendingNode(Protocol):
    """A node, as far as loans go."""

    @property
    def loans(self) -> Loans: ...

    @property
    def is_up(self) -> bool: ...


class LendingNodes(Protocol):
    """All nodes, likewise.

    Attributes:
        lending: those on which there are loans.
    """

    lending: set[int]

    def get(self, number: int) -> LendingNode | None:
        """A node by its number."""

    def set_loans(self, number: int, loans: Loans) -> None:
        """Note the loans of a node."""


def lent(loans: Loans, lenders: Container[int]) -> int:
    """How many slots are lent by these jobs."""
    every = (loan for each in loans.values() for loan in each)
    return sum(loan.slots for loan in every if loan.lender in lenders)


def without(loans: Loans, job_id: int) -> Loans:
    """The same when a job has left the node."""
    kept: dict[int, tuple[NodeLoan, ...]] = {}
    for borrower, each in loans.items():
        left = tuple(loan for loan in each if loan.lender != job_id)
        if left and borrower != job_id:
            kept[borrower] = left
    return kept


def check(loans: Loans, held: Mapping[int, int]) -> None:
    """Assert what must always hold.

    Args:
        held: the slots of each job on the node.
    """
    for borrower, each in loans.items():
        assert 0 < sum(loan.slots for loan in each) <= held[borrower], (loans, held)
    for job_id, slots in held.items() if loans else ():
        assert lent(loans, (job_id,)) <= slots, (loans, held)


def lend(nodes: LendingNodes, loans: Iterable[NodeLoan], job_id: int) -> None:
    """A job that holds slots of nodes has some of them from others, which hold them too."""
    for loan in loans:
        for number in range(loan.node, loan.node + loan.count):
            if (node := nodes.get(number)) is not None:
                of_job = (*node.loans.get(job_id, ()), replace(loan, node=number, count=1))
                nodes.set_loans(number, {**node.loans, job_id: of_job})


def borrowers(nodes: LendingNodes, *, only_up: bool = False) -> dict[int, set[int]]:
    """Who has slots of others, by the lenders.

    Args:
        only_up: on nodes that are up.
    """
    found: dict[int, set[int]] = {}
    for number in nodes.lending:
        node = nodes.get(number)
        assert node is not None, number
        for borrower, loans in node.loans.items() if node.is_up or not only_up else ():
            for loan in loans:
                found.setdefault(loan.lender, set()).add(borrower)
    return found
