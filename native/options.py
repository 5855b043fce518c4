"""Options in the style of Cplant's commands: one dash or two, names that may be shortened.

``-l 1..3``, ``-l1..3``, ``-list 1..3``, ``--list=1..3`` are the same option (GNU
``getopt_long_only``). A name can be shortened to four letters: shorter words mean other
things to other launchers, so each short form that we accept is a spelling of its own.
:func:`expand` writes each option in its first spelling, which the option parser knows. It
stops at the first word that is no option: everything behind a program's name belongs to the
program. Names are case sensitive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from native.errors import UsageError
from native.text import shown

PREFIX_MIN = 4  # letters of a shortened name
LISTED_MOST = 20  # options that an error names; of more it names the help
VERSION = {"package_name": "yod", "message": "%(prog)s %(version)s"}  # for click.version_option


class Option:
    """One option.

    Attributes:
        spellings: with their dashes, as ``("-sz", "-size")``; the first one is
            what :func:`expand` writes.
        takes_value: the next word, or what follows ``=``, belongs to it.
        may_lack_value: only what follows ``=`` does; without that its value is empty.
        help: a line for the user.
        metavar: what its value is called there.
        variable: of the environment, which gives the value where the command line has none;
            empty: there is no such.
    """

    def __init__(
        self,
        spellings: tuple[str, ...],
        takes_value: bool = False,
        help: str = "",
        metavar: str = "",
        may_lack_value: bool = False,
        variable: str = "",
    ) -> None:
        self.spellings = spellings
        self.takes_value = takes_value
        self.help = help
        self.metavar = metavar
        self.may_lack_value = may_lack_value
        self.variable = variable

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Option) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(self.spellings)


def _nothing(name: str) -> str:
    return ""


class Table:
    """Options by their names, for many command lines.

    Attributes:
        by_name: each by all of its spellings, without dashes.
        takes_value: by the first spelling of each.
    """

    def __init__(self, options: Iterable[Option]) -> None:
        options = tuple(options)
        self.by_name = {name.lstrip("-"): each for each in options for name in each.spellings}
        self.takes_value = {each.spellings[0]: each.takes_value for each in options}


def expand(
    argv: Sequence[str],
    options: Iterable[Option] | Table,
    elsewhere: Callable[[str], str] = _nothing,
) -> list[str]:
    """The same words with every option in its full spelling.

    Args:
        elsewhere: called with the name of an unknown option, without its dashes; says what
            to use here for an option of another launcher; empty: it is none.

    Raises:
        UsageError: an option is unknown, ambiguous, lacks its value or has an empty
            one, or has one that it does not take.
    """
    by_name = (options if isinstance(options, Table) else Table(options)).by_name
    words = list(argv)
    expanded: list[str] = []
    while words and words[0].startswith("-") and words[0] not in ("-", "--"):
        word = words.pop(0)
        name, separator, value = word.partition("=")
        if (option := _with_value(name, by_name)) is not None:
            separator, value = "=", word[2:]
        else:
            option = _find(name, by_name, elsewhere)
        expanded.append(option.spellings[0])
        if separator and not option.takes_value:
            raise UsageError(f"{option.spellings[0]} takes no value, got {shown(value)}")
        if not option.takes_value:
            continue
        if not separator and option.may_lack_value:
            expanded.append("")
            continue
        if not separator and not words:
            raise UsageError(f"{option.spellings[0]} needs a value")
        value = value if separator else words.pop(0)
        if not value:
            raise UsageError(f"{option.spellings[0]} needs a value, got an empty one")
        expanded.append(value)
    return expanded + words


def parse(
    argv: Sequence[str],
    options: Iterable[Option] | Table,
    elsewhere: Callable[[str], str] = _nothing,
) -> tuple[dict[str, list[str]], list[str]]:
    """Read a command line; for a command whose start must be quick.

    Returns:
        By each option's first spelling its values, in order (an empty text for one
        without a value); and the words from the first that is no option.

    Raises:
        UsageError: as :func:`expand`.
    """
    table = options if isinstance(options, Table) else Table(options)
    takes_value = table.takes_value
    words = expand(argv, table, elsewhere)
    given: dict[str, list[str]] = {}
    while words and words[0] in takes_value:
        name = words.pop(0)
        given.setdefault(name, []).append(words.pop(0) if takes_value[name] else "")
    if words[:1] == ["--"]:
        words.pop(0)
    return given, words


def read_exact(
    argv: Sequence[str], options: Iterable[Option]
) -> tuple[dict[str, str], list[str]] | None:
    """Read a command line that has nothing but options in their full spellings, and words.

    For a command whose start must be quick, and which has a slower reader for all the rest:
    shortened names, values at once behind a letter, and whatever is wrong.

    Returns:
        By each option's first spelling its last value (an empty text for one without a value),
        and the words from the first that is no option; None: the line has something else.
    """
    by_name = {name: option for option in options for name in option.spellings}
    given: dict[str, str] = {}
    words = list(argv)
    while words and words[0].startswith("-") and words[0] != "-":
        word = words.pop(0)
        if word == "--":
            break
        name, separator, value = word.partition("=")
        option = by_name.get(name)
        if option is None or (separator and (not option.takes_value or len(name) == 2)):
            return None
        if option.takes_value and not separator:
            if not words:
                return None
            value = words.pop(0)
        if option.takes_value and not value:
            return None
        given[option.spellings[0]] = value
    return given, words


class Plain:
    """An option of a plain command line.

    Attributes:
        name: of its value, in the code.
        read: makes its value of its text, or raises ValueError; None: it has no text, and is True.
    """

    def __init__(self, name: str, read: Callable[[str], Any] | None = str) -> None:
        self.name = name
        self.read = read


def natural(text: str) -> int:
    """A number that is not negative.

    Raises:
        ValueError: it is none.
    """
    if (number := int(text)) < 0:
        raise ValueError(text)
    return number


def read_plain(
    argv: Sequence[str], plain: Mapping[str, Plain]
) -> tuple[dict[str, Any], list[str]] | None:
    """Read a command line of options, each given once and its value a word of its own.

    For a command that has a slower reader for all the rest.

    Args:
        plain: by the spelling of each option.

    Returns:
        The values that are given, by their names, and the options written out; None: the line
        has something else.
    """
    options = [Option((spelling,), each.read is not None) for spelling, each in plain.items()]
    if (found := read_exact(argv, options)) is None or found[1]:
        return None
    values: dict[str, Any] = {}
    words: list[str] = []
    for spelling, text in found[0].items():
        name, read = plain[spelling].name, plain[spelling].read
        words += (spelling, text) if read else (spelling,)
        try:
            values[name] = read(text) if read else True
        except ValueError:
            return None
    return (values, words) if len(words) == len(argv) else None


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


def _find(word: str, by_name: dict[str, Option], elsewhere: Callable[[str], str]) -> Option:
    """The option that a word such as ``--list`` or ``-timi`` stands for.

    Raises:
        UsageError: it fits no option, or several; the text says what to use.
    """
    name = word.lstrip("-")
    if name in by_name:
        return by_name[name]
    # Several spellings of one option are not ambiguous.
    begun = {option for known, option in by_name.items() if name and known.startswith(name)}
    is_short = len(name) < PREFIX_MIN
    if len(begun) == 1 and not is_short:
        return begun.pop()
    if text := elsewhere(name) or elsewhere(_letter(word)):
        raise UsageError(f"no option {shown(word)} here: {text}")
    full = {spelling.lstrip("-"): spelling for o in by_name.values() for spelling in o.spellings}
    if begun:
        could = ", ".join(full[known] for known in full if known.startswith(name))
        why = f"; a name is shortened to {PREFIX_MIN} letters at least" if is_short else ""
        raise UsageError(f"{shown(word)}: could be {could}{why}")
    from difflib import get_close_matches  # slow to import

    if near := get_close_matches(name, full, cutoff=0.7):
        advice = f"did you mean {' or '.join(full[known] for known in near)}?"
    else:
        known = dict.fromkeys(option.spellings[0] for option in by_name.values())
        is_short = len(known) <= LISTED_MOST
        advice = f"known: {', '.join(known)}" if is_short else "-help lists them"
    raise UsageError(f"{shown(word)}: no such option here; {advice}")


def _letter(word: str) -> str:
    """The letter of a word such as ``-N2`` or ``-vv``; empty: it is another."""
    name = word[1:]
    is_one = name[1:2].isdigit() or len(set(name)) == 1
    return name[:1] if is_one and name[:1] != "-" else ""
