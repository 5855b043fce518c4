"""Files in ELF format for tests: headers and a dynamic section, no code."""

from __future__ import annotations

import struct
from collections.abc import Sequence

NEEDED, STRTAB, STRSZ, SONAME, RPATH, RUNPATH = 1, 5, 10, 14, 15, 29
ADDRESS = 0x400000  # where the one segment is to be mapped
X86_64, X86, POWER64 = 62, 3, 21


def elf_of(
    needed: Sequence[str] = (),
    *,
    loader: str = "",
    name: str = "",
    runpath: str = "",
    rpath: str = "",
    imports: Sequence[str] = ("execve",),
    bits: int = 64,
    order: str = "<",
    machine: int = X86_64,
) -> bytes:
    """The bytes of a program (with a loader) or a shared library."""
    strings, entries = b"\0", []
    named = [(NEEDED, text) for text in needed]
    named += [(SONAME, name), (RUNPATH, runpath), (RPATH, rpath)]
    for tag, text in named:
        if text:
            entries.append((tag, len(strings)))
            strings += text.encode() + b"\0"
    for symbol in imports:
        strings += symbol.encode() + b"\0"
    word = "Q" if bits == 64 else "I"
    header_bytes, segment_bytes = (64, 56) if bits == 64 else (52, 32)
    strings_at = header_bytes + 3 * segment_bytes
    loader_at = strings_at + len(strings)
    dynamic_at = loader_at + len(loader) + 1
    entries += [(STRTAB, ADDRESS + strings_at), (STRSZ, len(strings)), (0, 0)]
    dynamic = b"".join(struct.pack(f"{order}2{word}", *entry) for entry in entries)
    whole_bytes = dynamic_at + len(dynamic)

    def segment(kind: int, offset: int, count: int) -> bytes:
        place = (offset, ADDRESS + offset, ADDRESS + offset, count, count)
        if bits == 64:
            return struct.pack(f"{order}IIQQQQQQ", kind, 4, *place, 1)
        return struct.pack(f"{order}IIIIIIII", kind, *place, 4, 1)

    header = b"\x7fELF" + bytes([bits // 32, 1 if order == "<" else 2, 1]) + bytes(9)
    header += struct.pack(
        f"{order}HHI{word}{word}{word}IHHHHHH",
        *(3, machine, 1, 0, header_bytes, 0, 0, header_bytes, segment_bytes, 3, 0, 0, 0),
    )
    table = segment(1, 0, whole_bytes)
    table += segment(3 if loader else 0, loader_at, len(loader) + 1)
    table += segment(2, dynamic_at, len(dynamic))
    return header + table + strings + loader.encode() + b"\0" + dynamic
