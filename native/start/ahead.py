"""Imports modules while there is nothing else to do, so that nobody waits for them later."""

from __future__ import annotations

from collections.abc import Iterator


def imports(*modules: str) -> Iterator[None]:
    """Import these one by one; between two of them the caller may look whether it is needed."""
    for module in modules:
        __import__(module)
        yield
