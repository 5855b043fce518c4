"""What a file in ELF format says of the libraries that it needs."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.yod.elf_of import POWER64, STRSZ, X86, X86_64, elf_of
from yod.program.elf import Elf, parse

FULL = {
    "needed": ("libmpi.so.40", "libc.so.6"),
    "loader": "/lib64/ld-linux-x86-64.so.2",
    "name": "libown.so.1",
    "runpath": "$ORIGIN/../lib:/opt/lib",
}


def parsed(data):
    return parse(lambda count, offset: data[offset : offset + count])


@pytest.mark.parametrize(
    ("bits", "order", "machine"),
    [(64, "<", X86_64), (64, ">", POWER64), (32, "<", X86), (32, ">", X86)],
)
def test_all_that_counts_is_read_in_either_class_and_byte_order(bits, order, machine):
    assert parsed(elf_of(**FULL, bits=bits, order=order, machine=machine)) == Elf(
        kind=(bits // 32, 1 if order == "<" else 2, machine),
        interpreter="/lib64/ld-linux-x86-64.so.2",
        needed=("libmpi.so.40", "libc.so.6"),
        name="libown.so.1",
        search=("$ORIGIN/../lib", "/opt/lib"),
        reaches_out=True,
    )


def test_a_runpath_takes_an_rpaths_place():
    assert parsed(elf_of(rpath="/old:/older")).search == ("/old", "/older")
    assert parsed(elf_of(rpath="/old", runpath="/new")).search == ("/new",)


@pytest.mark.parametrize("symbol", ["dlopen", "execvp", "posix_spawn", "system", "syscall"])
def test_a_program_that_imports_such_a_function_may_reach_out(symbol):
    assert parsed(elf_of(imports=("printf", symbol, "exit"))).reaches_out


def test_a_program_that_imports_no_such_function_does_not_reach_out():
    assert not parsed(elf_of(imports=("printf", "execute", "my_system"))).reaches_out


def test_a_program_whose_imports_cannot_be_read_may_reach_out():
    data = elf_of(imports=("printf",))
    size = struct.pack("<QQ", STRSZ, 1 + len("printf") + 1)
    assert size in data
    assert parsed(data.replace(size, struct.pack("<QQ", STRSZ, 1 << 21))).reaches_out


def test_a_static_program_needs_nothing():
    found = parsed(elf_of())
    assert (found.interpreter, found.needed, found.name, found.search) == ("", (), "", ())


@pytest.mark.parametrize("data", [b"", b"\x7f", b"\x7fELF", b"#!/bin/sh\n", b"x" * 5000])
def test_what_is_no_elf_file_has_no_answer(data):
    assert parsed(data) is None


@given(
    st.lists(st.tuples(st.integers(0, 600), st.integers(0, 255)), max_size=12),
    st.integers(0, 600),
    st.sampled_from([32, 64]),
    st.sampled_from("<>"),
)
def test_a_damaged_file_raises_nothing(changes, length, bits, order):
    data = bytearray(elf_of(**FULL, bits=bits, order=order))
    for place, value in changes:
        data[place % len(data)] = value
    parsed(bytes(data))
    parsed(bytes(data[:length]))
    parsed(b"\x7fELF" + bytes([bits // 32, 1]) + bytes(data[6:length]))


@given(st.binary(max_size=300))
def test_any_bytes_behind_the_magic_raise_nothing(data):
    parsed(b"\x7fELF" + data)


def test_a_place_beyond_any_file_raises_nothing():
    data = bytearray(elf_of(**FULL))
    data[32:40] = b"\xff" * 8  # where the table of segments is
    assert parsed(bytes(data)) is None
