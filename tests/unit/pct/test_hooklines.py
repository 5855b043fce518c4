"""What a hook says on its standard output."""

from __future__ import annotations

from native.wire.keeper import KeeperSpec, ProgramSpec, RankSpec
from pct.job.rules.hooklines import NOTHING, Changes, Said, applied, for_steps, inherited, read


def spec(*ranks: tuple[bytes, ...], shared: tuple[bytes, ...] = ()) -> KeeperSpec:
    """A keeper's, with these variables of all ranks and of each."""
    return KeeperSpec(
        job_id=7,
        uid=1000,
        gid=100,
        groups=(),
        umask=0o22,
        limits=(),
        environment=shared,
        programs=(ProgramSpec(b"/bin/a", (b"a",), b"/"),),
        ranks=tuple(
            RankSpec(rank, 0, own, wants_stdin=False, wants_pmi=False)
            for rank, own in enumerate(ranks)
        ),
    )


def test_lines_export_unset_and_print():
    said = read(b"export A=1 2\nunset B\nprint  hello\nprint\nexport A=3\n")
    assert said == Said(Changes({b"A": b"3", b"B": None}, b" hello\n\n"))


def test_a_line_refuses_the_job():
    assert read(b"refuse no such project \nexport A=1").refusal == b"no such project"
    assert read(b"refuse").refusal == b""
    assert read(b"refused\n").refusal is None


def test_nonsense_changes_nothing_and_goes_to_the_log():
    nonsense = (
        b"export",
        b"export 1=2",
        b"export A",
        b"unset A=1",
        b"\xff\x1b[2J",
        b"exporting A=1",
    )
    said = read(b"\n\n".join(nonsense))
    assert said.changes == NOTHING
    assert said.rest == nonsense


def test_a_nul_gets_into_no_environment():
    assert read(b"export A=1\0B=2\n").changes.variables == {b"A": b"1B=2"}


def test_later_changes_come_over_earlier_ones():
    first, second = Changes({b"A": b"1", b"B": b"1"}, b"x\n"), Changes({b"A": None}, b"y\n")
    assert first.then(second) == Changes({b"A": None, b"B": b"1"}, b"x\ny\n")


def test_all_ranks_get_the_changes_of_all():
    changed = applied(
        spec((b"R=0",), (b"R=1",), shared=(b"A=1", b"B=1")), read_of(b"A=2", b"C=3"), {}
    )
    assert changed.environment == (b"B=1", b"A=2", b"C=3")
    assert [rank.environment for rank in changed.ranks] == [(b"R=0",), (b"R=1",)]


def test_a_change_of_all_reaches_ranks_that_have_a_value_of_their_own():
    changed = applied(spec((b"R=0",), (b"R=1",)), Changes({b"R": b"9"}), {})
    assert effective(changed) == [{b"R": b"9"}, {b"R": b"9"}]
    changed = applied(spec((b"R=0",), (b"R=1",)), Changes({b"R": None}), {})
    assert effective(changed) == [{}, {}]


def test_a_rank_that_unsets_a_variable_leaves_it_to_the_others():
    of_ranks = {0: Changes({b"A": None, b"C": b"0"})}
    changed = applied(spec((), (b"B=1",), shared=(b"A=1",)), NOTHING, of_ranks)
    assert effective(changed) == [{b"C": b"0"}, {b"A": b"1", b"B": b"1"}]


def test_the_steps_of_an_allocation_find_what_its_hooks_have_changed():
    changes = Changes({b"A": b"1 2", b"B": None})
    allocation = applied(spec((), shared=(b"B=2", b"C=3")), for_steps(changes, b"/h.toml"), {})
    (environment,) = effective(allocation)
    assert environment[b"YOD_HOOKS"] == b"/h.toml"
    assert inherited(environment) == changes
    assert inherited({}) == NOTHING


def read_of(*pairs: bytes) -> Changes:
    return read(b"".join(b"export %b\n" % pair for pair in pairs)).changes


def effective(changed: KeeperSpec) -> list[dict[bytes, bytes]]:
    """The environment of each rank: its own variables come over those of all."""
    return [
        dict(each.split(b"=", 1) for each in (*changed.environment, *rank.environment))  # type: ignore[misc]
        for rank in changed.ranks
    ]
