"""Options as the original commands took them: one dash, any unambiguous prefix.

``-l 1..3``, ``-l1..3``, ``-list 1..3``, ``--list=1..3`` are the same option (GNU
``getopt_long_only``). :func:`expand` writes each in the one spelling that the
option parser knows; it stops at the first word that is no option, because
everything after a program's name is the program's. Names are case sensitive.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from native.errors import UsageError

VERSION = {"package_name": "yod", "message": "%(prog)s %(version)s"}  # for click.version_option


class Option(Struct, frozen=True):
    """One option.

    Attributes:
        spellings: with their dashes, as ``("-sz", "-size")``; the first one is
            what :func:`expand` writes.
        takes_value: the next word, or what follows ``=``, belongs to it.
        help: a line for the user.
        metavar: what its value is called there.
    """

    spellings: tuple[str, ...]
    takes_value: bool = False
    help: str = ""
    metavar: str = ""


def match(word: str, names: Sequence[str]) -> str:
    """The option that a word such as ``-l`` or ``--list`` stands for.

    Raises:
        UsageError: unknown, or several begin so; lists them.
    """
    text = word.lstrip("-")
    if text in names:
        return text
    found = [name for name in names if text and name.startswith(text)]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"{word}: could be {', '.join('-' + name for name in found)}")
    raise UsageError(f"{word}: no such option here; known: {', '.join('-' + n for n in names)}")


def expand(argv: Sequence[str], options: Iterable[Option]) -> list[str]:
    """The same words with every option in its full spelling.

    Raises:
        UsageError: an option is unknown, ambiguous, lacks its value or has an empty
            one, or has one that it does not take.
    """
    by_name = {name.lstrip("-"): option for option in options for name in option.spellings}
    words = list(argv)
    expanded: list[str] = []
    while words and words[0].startswith("-") and words[0] not in ("-", "--"):
        word = words.pop(0)
        name, separator, value = word.partition("=")
        if (option := _with_value(name, by_name)) is not None:
            separator, value = "=", word[2:]
        else:
            option = _find(name, by_name)
        expanded.append(option.spellings[0])
        if separator and not option.takes_value:
            raise UsageError(f"{option.spellings[0]} takes no value, got `{value}`")
        if not option.takes_value:
            continue
        if not separator and not words:
            raise UsageError(f"{option.spellings[0]} needs a value")
        value = value if separator else words.pop(0)
        if not value:
            raise UsageError(f"{option.spellings[0]} needs a value, got an empty one")
        expanded.append(value)
    return expanded + words


def parse(argv: Sequence[str], options: Sequence[Option]) -> tuple[dict[str, list[str]], list[str]]:
    """Options and what follows them, for a command whose start must be quick.

    Returns:
        By each option's first spelling its values, in order (an empty text for one
        without a value); and the words from the first that is no option.

    Raises:
        UsageError: as :func:`expand`.
    """
    takes_value = {option.spellings[0]: option.takes_value for option in options}
    words = expand(argv, options)
    given: dict[str, list[str]] = {}
    while words and words[0] in takes_value:
        name = words.pop(0)
        given.setdefault(name, []).append(words.pop(0) if takes_value[name] else "")
    if words[:1] == ["--"]:
        words.pop(0)
    return given, words


def describe(options: Sequence[Option]) -> str:
    """The options as a help text lists them."""
    lines = [(", ".join(each.spellings) + f" {each.metavar}").rstrip() for each in options]
    width = max(map(len, lines))
    return "".join(
        f"  {line:<{width}}  {option.help}\n" for line, option in zip(lines, options, strict=True)
    )


def of_click(parameters: Iterable[Any]) -> list[Option]:
    """The options of a click command's ``params``."""
    return [
        Option(tuple(parameter.opts), not (parameter.is_flag or parameter.count))
        for parameter in parameters
        if parameter.param_type_name == "option"
    ]


def _with_value(word: str, by_name: dict[str, Option]) -> Option | None:
    """The option of one letter in a word such as ``-n4``: a number follows it at once."""
    option = by_name.get(word[1:2])
    return option if option and option.takes_value and word[2:3].isdigit() else None


def _find(word: str, by_name: dict[str, Option]) -> Option:
    """Several spellings of one option are not ambiguous."""
    text = word.lstrip("-")
    begun = {option for name, option in by_name.items() if text and name.startswith(text)}
    if text not in by_name and len(begun) == 1:
        return begun.pop()
    return by_name[match(word, list(by_name))]
