"""The command ``yod``: :mod:`yod.cli`, with its modules' code from one file."""

from __future__ import annotations

import sys

from native.codecache import CodeCache

_cache = CodeCache("yod")
sys.meta_path.insert(0, _cache)

from yod import cli  # noqa: E402


def main() -> None:
    """Entry point: the exit status tells what happened."""
    try:
        cli.main()
    finally:
        _cache.save()
