"""Load files: the rules of Cplant's yod, and quotes; errors name file and line."""

import pytest

from native.errors import LoadFileError, UsageError
from native.wire.base import MEMBERS_MAX
from yod.plan.loadfile import OPTIONS, Line, parse, parse_size
from yod.plan.shape import Shape

KNOWN = ", ".join(option.spellings[0] for option in OPTIONS)


def only(text):
    (line,) = parse(text, "f.load")
    return line


def test_every_line_is_one_member_in_file_order():
    assert parse("-sz 1 master\n-sz 3 -l 5,1..2 worker -v\n", "f.load") == [
        Line("f.load:1", 1, None, ("master",)),
        Line("f.load:2", 3, (5, 1, 2), ("worker", "-v")),
    ]


def test_a_line_says_how_its_ranks_lie_on_nodes():
    line = only("-N 2 --ranks-per-node=3 a.out -N 4")
    assert line == Line("f.load:1", None, None, ("a.out", "-N", "4"), Shape(2, 3))


def test_blank_lines_and_comments_count_as_lines_and_are_nothing_else():
    text = "\n# comment\n   \n\t# more\na.out\n\r\n -sz 2 b.out \r\n"
    assert [line.origin for line in parse(text, "f.load")] == ["f.load:5", "f.load:7"]


def test_a_last_line_needs_no_newline():
    assert only("a.out").words == ("a.out",)


@pytest.mark.parametrize(
    ("text", "size", "nodes"),
    [
        ("a.out", None, None),
        ("-sz 4 a.out", 4, None),
        ("-size 4 a.out", 4, None),
        ("-s 4 a.out", 4, None),
        ("--sz=4 a.out", 4, None),
        ("-list 7 a.out", None, (7,)),
        ("-l 3..1 a.out", None, (3, 2, 1)),
        ("-l 1,2,1 -sz 2 a.out", 2, (1, 2)),
        ("-sz 1 -sz 2 a.out", 2, None),
        ("-sz 2 -- a.out", 2, None),
    ],
)
def test_size_and_list_come_before_the_program_in_any_spelling(text, size, nodes):
    line = only(text)
    assert (line.size, line.nodes, line.words) == (size, nodes, ("a.out",))


def test_everything_after_the_program_is_the_programs():
    assert only("a.out -sz 3 -x -- # -list 1").words == (
        "a.out", "-sz", "3", "-x", "--", "#", "-list", "1",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("""'a b' "c d" e\\ f""", ("a b", "c d", "e f")),
        ("""a "it's" 'say "x"'""", ("a", "it's", 'say "x"')),
        ("""a '' "" """, ("a", "", "")),
        ("a $HOME `x` *.c ~", ("a", "$HOME", "`x`", "*.c", "~")),
        ("a\tb   c", ("a", "b", "c")),
        ("a é\u00a0x", ("a", "é\u00a0x")),
    ],
    ids=["quotes", "quotes in quotes", "empty words", "nothing is expanded", "blanks", "unicode"],
)
def test_words_are_split_as_a_shell_splits_them(text, words):
    assert only(text).words == words


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a.out\n-x 3 b.out", f"f.load:2: -x: no such option here; known: {KNOWN}"),
        ("-kill a.out", f"f.load:1: -kill: no such option here; known: {KNOWN}"),
        ("-sz a.out", "f.load:1: -sz a.out: not a number of ranks"),
        ("-sz 0 a.out", "f.load:1: -sz 0: at least 1 rank"),
        ("-sz -3 a.out", "f.load:1: -sz -3: at least 1 rank"),
        ("-sz +-3 a.out", "f.load:1: -sz +-3: not a number of ranks"),
        ("-sz 2.5 a.out", "f.load:1: -sz 2.5: not a number of ranks"),
        ("-sz", "f.load:1: -sz needs a value"),
        ("-sz 2", "f.load:1: no program on this line"),
        ("-sz 2 --", "f.load:1: no program on this line"),
        (
            "-list n5 a.out",
            "f.load:1: node list `n5`: 'n' is not allowed (digits, dots and commas, as in 5,1..3)",
        ),
        ("a 'b", "f.load:1: no closing quotation in: a 'b"),
        ("a\n-sz 2 b 'c\0d'\n", "f.load:2: a NUL character, which an argument cannot have"),
        ("\n\na \\", "f.load:3: no escaped character in: a \\"),
    ],
)
def test_what_is_wrong_is_told_with_file_and_line(text, message):
    with pytest.raises(LoadFileError) as caught:
        parse(text, "f.load")
    assert str(caught.value) == message


@pytest.mark.parametrize("text", ["", "\n\n", "# only\n  # comments\n"])
def test_a_file_without_programs_is_told_what_a_line_is(text):
    with pytest.raises(LoadFileError) as caught:
        parse(text, "f.load")
    assert str(caught.value) == (
        "f.load: no program in this load file; each line is {-sz N} {-list L} program {args}"
    )


def test_the_number_of_programs_is_bounded():
    assert len(parse("a\n" * MEMBERS_MAX, "f.load")) == MEMBERS_MAX
    with pytest.raises(LoadFileError, match=r"^f\.load: 1025 programs, at most 1024"):
        parse("a\n" * (MEMBERS_MAX + 1), "f.load")


def test_a_number_of_very_many_digits_is_refused_at_once():
    with pytest.raises(UsageError, match=r"-sz 111111111111111111\.\.\.: at most 1048576 ranks"):
        parse_size("-sz", "1" * 1_000_000)


def test_a_size_may_have_a_sign():
    assert parse_size("-sz", "+4") == 4
