"""Output as it arrives: whole, in order, once; what is lost is counted."""

from hypothesis import given
from hypothesis import strategies as st

from native.wire.io import MESSAGE_COST_BYTES, Output, cost
from yod.launch.output import OutputLedger

WINDOW = 1 << 16


def arrived(ledger, offset, data, rank=0):
    return ledger.arrived(Output(7, rank, 1, offset, data))


def test_output_in_order_is_passed_on_as_it_is():
    ledger = OutputLedger(WINDOW)
    assert arrived(ledger, 0, b"one") == (b"one", 0)
    assert arrived(ledger, 3, b"two") == (b"two", 0)
    assert arrived(ledger, 0, b"y", rank=1) == (b"y", 0)


def test_what_never_came_is_counted():
    ledger = OutputLedger(WINDOW)
    arrived(ledger, 0, b"one")
    assert arrived(ledger, 10, b"two") == (b"two", 7)
    assert arrived(ledger, 13, b"three") == (b"three", 0)
    assert ledger.lost_bytes == 7


def test_what_came_before_is_not_written_twice():
    ledger = OutputLedger(WINDOW)
    arrived(ledger, 0, b"abcdef")
    assert arrived(ledger, 4, b"efgh") == (b"gh", 0)
    assert arrived(ledger, 0, b"abc") == (b"", 0)
    assert arrived(ledger, 8, b"i") == (b"i", 0)


def test_credit_is_what_has_been_written_in_quarters_of_a_window():
    ledger = OutputLedger(WINDOW)
    arrived(ledger, 0, bytes(WINDOW // 4 - MESSAGE_COST_BYTES))
    assert ledger.credit() == 0
    assert ledger.written(WINDOW // 4 - MESSAGE_COST_BYTES - 1) == 0
    assert ledger.written(1) == WINDOW // 4
    assert ledger.written(0) == 0


def test_yod_counts_a_message_as_its_sender_does():
    message = Output(7, 0, 1, 0, b"hello")
    ledger = OutputLedger(4)
    ledger.arrived(message)
    assert ledger.written(len(message.data)) == cost(message)


def test_what_messages_cost_is_given_back_though_their_data_waits_for_a_lines_end():
    ledger = OutputLedger(WINDOW)
    for offset in range(WINDOW // 4 // MESSAGE_COST_BYTES):
        assert ledger.credit() == 0
        arrived(ledger, offset, b"x")
    assert ledger.credit() == WINDOW // 4
    assert ledger.waiting_bytes == WINDOW // 4 // MESSAGE_COST_BYTES


def test_what_came_before_waits_for_nobody():
    ledger = OutputLedger(WINDOW)
    arrived(ledger, 0, b"abc")
    arrived(ledger, 0, b"abc")
    assert ledger.waiting_bytes == 3


@given(
    pieces=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)), max_size=30),
)
def test_whatever_arrives_each_byte_is_written_at_most_once_and_in_its_place(pieces):
    text = bytes(range(64))
    ledger = OutputLedger(WINDOW)
    position = lost = 0
    for offset, length in pieces:
        data, gap = arrived(ledger, offset, text[offset : offset + length])
        position += gap
        lost += gap
        assert data == text[position : position + len(data)] or not data
        position += len(data)
    assert ledger.lost_bytes == lost
