"""Standard input on its way down, and the credit for more."""

from __future__ import annotations

import pytest

from native.errors import PeerProtocolError
from native.wire.group import Dialect
from pct.job.rules.dialects import Where, entries
from pct.job.rules.input import InputFlow
from pct.tree.collective import SELF
from tests.unit.pct.job_of import load_message


def flow(*ranges, place=0, size=3):
    return InputFlow(load_message(size, place, input_ranks=ranges), 100)


def test_the_slowest_subtree_decides_when_more_may_come():
    one = flow((0, 2))
    one.arrived(60)
    one.taken(SELF, 60)
    one.taken(1, 60)
    assert one.credit((1, 2)) == 0
    one.taken(2, 20)
    assert one.credit((1, 2)) == 20
    assert one.credit((1, 2)) == 0
    one.arrived(60)
    with pytest.raises(PeerProtocolError, match="1 bytes of input, 0 due"):
        one.arrived(1)


def test_a_node_without_a_rank_that_reads_takes_all_at_once():
    one = flow((2, 2), place=1)
    one.arrived(60)
    assert (one.is_read, one.credit(())) == (False, 60)


def test_a_node_whose_ranks_have_closed_their_input_waits_for_nobody():
    one = flow((0, 2))
    one.arrived(60)
    one.closed()
    assert one.credit(()) == 60


def test_no_more_is_asked_for_when_rank_0_alone_had_input_and_has_closed_it():
    one = flow((0, 0))
    one.arrived(60)
    one.closed()
    assert (one.goes_on, one.credit((1, 2))) == (False, 0)


def test_a_child_that_is_lost_is_not_waited_for():
    one = flow((0, 2))
    one.arrived(60)
    one.taken(SELF, 60)
    assert one.credit((1,)) == 0
    assert one.credit(()) == 60


def test_a_child_cannot_have_taken_more_than_it_was_sent():
    one = flow((0, 2))
    one.arrived(5)
    with pytest.raises(PeerProtocolError, match="6 bytes of input taken, 5 sent"):
        one.taken(1, 6)


AT = Where(5, 8, 1, 4, 1, ("n0", "n1"), 2, "17.3", "10.0.0.1", 16001)


@pytest.mark.parametrize(
    ("dialect", "expected"),
    [
        (Dialect.SLURM, b"SLURM_JOB_ID=17 SLURM_STEP_ID=3 SLURM_PROCID=5 SLURM_NODEID=1"),
        (Dialect.SLURM, b"SLURM_JOB_NODELIST=n0,n1 SLURM_CPUS_PER_TASK=2 SLURM_LOCALID=1"),
        (Dialect.PALS, b"PALS_RANKID=5 PALS_SIZE=8 PALS_LOCAL_RANKID=1 PALS_NODEID=1"),
        (Dialect.FLUX, b"FLUX_TASK_RANK=5 FLUX_TASK_LOCAL_ID=1 FLUX_JOB_NNODES=2"),
        (Dialect.OMPI, b"OMPI_COMM_WORLD_RANK=5 OMPI_COMM_WORLD_LOCAL_SIZE=4"),
        (Dialect.TORCH, b"RANK=5 LOCAL_RANK=1 MASTER_ADDR=10.0.0.1 MASTER_PORT=12001"),
    ],
)
def test_a_dialect_says_what_its_launcher_would(dialect, expected):
    assert set(expected.split()) <= set(entries([dialect], AT))


def test_a_list_of_nodes_that_is_very_long_is_left_out():
    many = AT._replace(nodes=tuple(f"a-node-with-a-long-name-{number}" for number in range(2000)))
    assert not any(entry.startswith(b"SLURM_NODELIST=") for entry in entries([Dialect.SLURM], many))
