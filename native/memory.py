"""Sizes of memory, as people write and read them."""

from __future__ import annotations

MEMORY_MAX = 1 << 60
_UNITS = ("", "K", "M", "G", "T", "P")


def memory_text(size: int) -> str:
    """Bytes for people, in the largest unit that is exact, or with two decimals."""
    power = 0
    value = float(size)
    while value >= 1024 and power < len(_UNITS) - 1:
        value, power = value / 1024, power + 1
    unit = f"{_UNITS[power]}iB" if power else "bytes"
    return f"{f'{value:.2f}'.rstrip('0').rstrip('.')} {unit}"


def parse_memory(text: str, unit: str = "M") -> int | None:
    """Bytes of ``512``, ``4G``, ``4GB``, ``1.5GiB``, ``512B``; None: it is none, or too large.

    Args:
        unit: of a number without one; Slurm's is M.
    """
    stem = text.upper()
    if stem[:-1].isdigit() and stem[-1:] == "B":
        stem, unit = stem[:-1], ""
    stem = stem.removesuffix("IB").removesuffix("B")
    if stem and stem[-1] in "KMGTP":
        stem, unit = stem[:-1], stem[-1]
    whole, point, part = stem.partition(".")
    is_number = whole.isascii() and whole.isdigit() and (not point or part.isdigit())
    if not is_number or not stem.isascii() or len(stem) > 18:
        return None
    factor = 1 << (10 * _UNITS.index(unit))
    size = int(whole) * factor + (int(part) * factor // 10 ** len(part) if part else 0)
    return size if 0 < size <= MEMORY_MAX else None
