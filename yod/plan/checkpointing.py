"""Reads the options of checkpoints. Pure; imported when one of them is given."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence

from native import duration
from native.errors import UsageError
from native.text import shown
from native.wire.base import SIZE_MAX
from yod.plan.checkpoint import AUTO, GRACE_S, KEEP_COUNT, Backend, Checkpointing, Occasion
from yod.plan.checkpoint_options import (
    BY,
    DIRECTORY,
    EVERY,
    GRACE,
    KEEP,
    LOCAL,
    ON,
    OPTIONS,
    RESTART,
    SIGNAL,
)

_OCCASIONS = {each.value.lower(): each for each in Occasion}
_SIGNALS = {"USR1": signal.SIGUSR1, "USR2": signal.SIGUSR2}


def chosen(given: Mapping[str, Sequence[str]]) -> Checkpointing:
    """What the options ask for, of which there is one.

    Raises:
        UsageError: the text names the option.
    """
    values = {option.spellings[0]: given.get(option.spellings[0]) for option in OPTIONS}
    said = {name: each[-1] for name, each in values.items() if each}
    restart = said.get(RESTART, "")
    directory = said.get(DIRECTORY, "")
    if not directory and not restart:
        raise UsageError(f"{next(iter(said))}: only with {DIRECTORY} DIR")
    backend = _backend(said[BY]) if BY in said else None
    if backend is Backend.CRIU and SIGNAL in said:
        raise UsageError(f"{SIGNAL}: only with {BY} signal; criu tells ranks nothing")
    return Checkpointing(
        directory=directory,
        restart=restart,
        backend=backend,
        signal_number=_signal(said.get(SIGNAL, "USR1")),
        grace_s=_seconds(said.get(GRACE)),
        keep=_count(said.get(KEEP)),
        every_s=_interval(said[EVERY]) if EVERY in said else 0.0,
        on=_occasions(said[ON], gives_way="-nice" in given) if ON in said else frozenset(),
        local=_local(said.get(LOCAL, "")),
    )


def _local(text: str) -> str:
    if text and not text.startswith("/"):
        raise UsageError(f"{LOCAL} {shown(text)}: an absolute path, of a directory of each node's")
    return text


def _interval(text: str) -> float:
    return AUTO if text == "auto" else float(duration.parse(text, EVERY))


def _backend(text: str) -> Backend:
    try:
        return Backend(text)
    except ValueError:
        known = ", ".join(each.value for each in Backend)
        raise UsageError(f"{BY} {shown(text)}: one of {known}") from None


def _signal(text: str) -> int:
    number = _SIGNALS.get(text.upper().removeprefix("SIG"))
    if number is None:
        raise UsageError(f"{SIGNAL} {shown(text)}: USR1 or USR2")
    return number


def _seconds(text: str | None) -> float:
    if text is None:
        return GRACE_S
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < duration.parse("365-0", GRACE):
        raise UsageError(f"{GRACE} {shown(text)}: seconds above 0")
    return seconds


def _count(text: str | None) -> int:
    if text is None:
        return KEEP_COUNT
    if not (text.isascii() and text.isdigit() and int(text[:8]) <= SIZE_MAX):
        raise UsageError(f"{KEEP} {shown(text)}: a number; 0 keeps all")
    return int(text[:8])


def _occasions(text: str, gives_way: bool) -> frozenset[Occasion]:
    """A batch job that is preempted gets SIGTERM; a launch that gives way is asked by bebopd."""
    try:
        found = {_OCCASIONS[word] for word in text.lower().split(",")}
    except KeyError:
        known = ", ".join(each.value for each in Occasion)
        raise UsageError(f"{ON} {shown(text)}: one of {known}") from None
    if Occasion.PREEMPT in found and not gives_way:
        found = found - {Occasion.PREEMPT} | {Occasion.TERM}
    return frozenset(found)
