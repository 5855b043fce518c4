"""One rank has the user's terminal: its bytes pass, what others write are lines beside it."""

from __future__ import annotations

from native.limits import Limits
from yod.host.beside import BesideTerminal
from yod.plan.plan import Style


def beside(style: Style = Style.LABELLED, size: int = 2) -> BesideTerminal:
    lines = BesideTerminal(style, size, Limits(), None, rank=1)
    lines.is_raw = lambda: True
    return lines


def shown(pieces) -> bytes:
    return b"".join(bytes(data) for data, _, _ in pieces)


def test_its_bytes_pass_as_they_come_without_a_label():
    lines = beside()
    assert shown(lines.add(1, 1, b"$ ", 0.0)) == b"$ "
    assert shown(lines.add(1, 1, b"\x1b[1m\nx", 0.0)) == b"\x1b[1m\nx"


def test_lines_of_others_end_as_a_raw_terminal_wants_it():
    assert shown(beside().add(0, 1, b"one\ntwo\n", 0.0)) == b"0: one\r\n0: two\r\n"
    assert shown(beside().say(b"yod: said", 0.0)) == b"yod: said\r\n"


def test_others_wait_for_the_end_of_its_line_for_a_while():
    lines = beside()
    lines.add(1, 1, b"$ ", 0.0)
    assert lines.add(0, 1, b"one\n", 0.0) == []
    assert shown(lines.due(lines.deadline() or 0.0)) == b"\r\n0: one\r\n"
    lines.add(1, 1, b"$ ", 1.0)
    lines.add(0, 1, b"two\n", 1.0)
    assert shown(lines.add(1, 1, b"ls\r\n", 1.1)) == b"ls\r\n0: two\r\n"


def test_an_open_line_of_another_gives_way_to_it_and_goes_on_behind_its_label():
    lines = beside()
    assert shown(lines.add(0, 1, b"half", 0.0)) == b"0: half"
    assert shown(lines.add(1, 1, b"$ \r\n", 1.0)) == b"\r\n$ \r\n"
    assert shown(lines.add(0, 1, b" more\n", 1.1)) == b"0:  more\r\n"


def test_it_counts_what_ranks_have_written_and_nothing_else():
    lines = beside()
    pieces = [*lines.add(0, 1, b"a\n", 0.0), *lines.add(1, 1, b"b\n", 0.0), *lines.say(b"c", 0.0)]
    assert sum(count for _, _, count in pieces) == 4
