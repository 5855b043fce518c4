"""Files that the ranks write to instead of yod, or strace about them, as its options say. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from native import pattern
from native.errors import UsageError
from native.text import shown
from native.wire.base import PATH_MAX
from native.wire.group import STRACE_OPTIONS_MAX, RankFiles, Strace
from yod.plan.input import parse
from yod.plan.plan import RANK_0

_APART = frozenset("tnN")  # codes that tell ranks or nodes apart
_RANKS = frozenset("t")  # that tell ranks apart
_NOWHERE = "/dev/null"


def chosen(given: Mapping[str, Sequence[str]], user: str) -> RankFiles:
    """What ``-o`` and ``-e`` say, with ``--restart`` behind what is in the files already.

    With ``--tee`` yod writes these files, each rank's by itself.

    Args:
        given: the options with their values; one of the three is there.
        user: the name of yod's user.

    Raises:
        UsageError: a pattern has an unknown code, or is the same for all nodes.
    """
    if "-o" not in given and "-e" not in given:
        raise UsageError("--tee: name the files, too: -o 'out.%t' --tee")
    apart = _RANKS if "--tee" in given else _APART
    found = {
        name: _pattern(name, given[name][-1], user, apart) for name in ("-o", "-e") if name in given
    }
    out = found.get("-o", b"")
    return RankFiles(out, found.get("-e", out), "--restart" in given)


def traced(given: Mapping[str, Sequence[str]]) -> Strace:
    """What ``-strace``, ``-straceoptions`` and ``-stracenodes`` say.

    Raises:
        UsageError: one is not as its option wants it, or another option excludes it.
    """
    for name in ("-straceoptions", "-stracenodes"):
        if name in given and "-strace" not in given:
            raise UsageError(f"{name}: only with -strace DIR")
    for other in ("-bt", "-attach", "-sleep"):
        if other in given:
            raise UsageError(f"-strace and {other} exclude each other: a rank has one tracer")
    directory = given["-strace"][-1].encode(errors="surrogateescape")
    if not 0 < len(directory) <= PATH_MAX:
        raise UsageError(f"-strace: a directory has 1 to {PATH_MAX} bytes")
    words = given.get("-straceoptions", ("",))[-1].split()
    if len(words) > STRACE_OPTIONS_MAX:
        raise UsageError(f"-straceoptions: {len(words)} words, at most {STRACE_OPTIONS_MAX}")
    ranks = parse(given["-stracenodes"][-1], "-stracenodes") if "-stracenodes" in given else RANK_0
    options = tuple(word.encode(errors="surrogateescape") for word in words)
    return Strace(directory, ranks, options)


def _pattern(option: str, text: str, user: str, apart: frozenset[str]) -> bytes:
    pattern.check(text, pattern.OF_RANKS)
    if text != _NOWHERE and not pattern.codes(text) & apart:
        if apart is _RANKS:
            raise UsageError(
                f"{option} {shown(text)}: with --tee %t (rank) must be in it; for one file of all"
                f" ranks write `yod ... | tee {shown(text)}`"
            )
        redirect = ">" if option == "-o" else "2>"
        raise UsageError(
            f"{option} {shown(text)}: %t (rank), %n or %N (node) must be in it: nodes do not write"
            f" to one file together; for one file of all ranks write `{redirect} {shown(text)}`"
        )
    expanded = pattern.expand(text, {"u": user.replace("%", "%%")}).encode(errors="surrogateescape")
    if len(expanded) > PATH_MAX:
        raise UsageError(f"{option}: a path has at most {PATH_MAX} bytes")
    return expanded
