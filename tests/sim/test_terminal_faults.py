"""What may go wrong while yod is the terminal of a job: one schedule for each fault.

Each is named in tests/terminal_faults.py, with the test of the same fault on several hosts.
All rules of tests/sim/rules.py hold besides.
"""

from __future__ import annotations

import errno
import random
import signal

import pytest
from msgspec.structs import replace

from native.limits import Limits
from tests.sim.apps import Mix, Program, Start, closer, draw, quiet, writer
from tests.sim.faults import Fault, Faults, Victim
from tests.sim.launchers import Job, Reader, YodActor
from tests.sim.seeds import seeds
from tests.sim.world import Sim
from yod.launch.phases import Phase
from yod.plan.plan import Options, Style

NODES = 7
SLOTS = 4
SIZE = NODES * SLOTS
PROMPT_S = 5.0  # nobody waits for a deadline where the kernel tells at once
LIMITS = Limits(heartbeat_s=20.0, silent_s=70.0, arity_count=2, output_window_bytes=65536)
CALM = Mix(uses_pmi=False, ignores_term=0.0, is_stuck=0.0)
LASTS = replace(CALM, hangs=1.0, forks=0.0)
NO_LINES = bytes(set(range(256)) - {10})
MANY = seeds(4, of=40)


def play(
    seed: int,
    programs: list[Program] | None = None,
    *faults: Fault,
    mix: Mix = CALM,
    reader: Reader = Reader.FAST,
    options: Options | None = None,
    patterns: dict[int, bytes] | None = None,
    words: tuple[bytes, ...] = (b"a.out",),
) -> tuple[YodActor, Sim]:
    """One job on all slots of seven nodes, to its end."""
    rng = random.Random(seed)
    sim = Sim(seed, NODES, lambda number: SLOTS, LIMITS)
    found: list[YodActor] = []

    def run() -> None:
        sim.boot()
        job = Job(
            programs or draw(rng, SIZE, mix),
            reader=reader,
            options=options or Options(stops_ranks=seed % 2 == 1),
            words=words,
            arguments_inline=seed % 3 > 0,
        )
        found.append(sim.launch(job))
        Faults(sim).plan(found[0], *faults)
        strike = sim.on_phase

        def entered(yod: YodActor, phase: Phase) -> None:
            if phase is Phase.LOADING and yod.truth is not None:
                yod.truth.patterns.update(patterns or {})
            strike(yod, phase)

        sim.on_phase = entered
        sim.finish()

    sim.guarded(run)
    assert found[0].truth is not None
    return found[0], sim


def ends(yod: YodActor) -> dict[int, int]:
    """How each rank has ended."""
    assert yod.truth is not None
    return {rank: status for rank, (status, _) in yod.truth.ends.items()}


def during(victim: Victim, seed: int, **fields: object) -> Fault:
    """A fault while the ranks run."""
    rng = random.Random(seed)
    delay_s = rng.uniform(0.05, 0.5)
    return Fault(victim, Phase.RUNNING, delay_s, place=rng.randrange(99), **fields)  # type: ignore[arg-type]


def took(yod: YodActor) -> float:
    """Seconds from the start of yod to its end."""
    return yod.ended_at - yod.began_at


def demand_all_is_there(yod: YodActor) -> None:
    """It has ended well, and has shown all that its ranks have written."""
    assert yod.machine.report.exit_status == 0
    assert yod.truth is not None
    assert not yod.truth.missing_output()


# -- ranks ------------------------------------------------------------------


@pytest.mark.parametrize("seed", MANY)
def test_a_second_interrupt_kills_ranks_that_ignore_sigterm(seed: int):
    fault = during(Victim.USER, seed, times=2)
    yod, _ = play(seed, None, fault, mix=replace(LASTS, ignores_term=1.0))
    assert set(ends(yod).values()) == {signal.SIGKILL}
    assert yod.machine.report.exit_status == 128 + signal.SIGINT
    assert took(yod) < PROMPT_S


@pytest.mark.parametrize("seed", MANY)
def test_ranks_that_ignore_sigterm_are_killed_where_another_has_failed(seed: int):
    programs = draw(random.Random(seed), SIZE, replace(LASTS, ignores_term=1.0))
    programs[seed % SIZE] = quiet(0.1, 3)
    yod, _ = play(seed, programs)
    assert yod.machine.report.exit_status == 3
    assert set(ends(yod).values()) == {signal.SIGKILL, 3 << 8}


@pytest.mark.parametrize("seed", MANY)
def test_what_ranks_leave_behind_ends_with_the_job(seed: int):
    yod, sim = play(seed, mix=replace(CALM, forks=1.0, seconds=20.0))
    assert yod.machine.report.exit_status == 0
    assert not any(host.processes for host in sim.hosts.values())


@pytest.mark.parametrize("seed", MANY)
def test_a_signal_is_passed_to_each_rank_once(seed: int):
    programs = [replace(each, handles_usr1=True) for each in draw(random.Random(seed), SIZE, LASTS)]
    end = Fault(Victim.USER, Phase.RUNNING, 5.0)  # they would go on for ever
    yod, _ = play(seed, programs, during(Victim.USR1, seed), end)
    assert yod.truth is not None
    assert yod.truth.heard_usr1 == dict.fromkeys(range(SIZE), 1)


@pytest.mark.parametrize("seed", MANY)
def test_the_first_failure_is_the_jobs_and_told_once(seed: int):
    programs = draw(random.Random(seed), SIZE, LASTS)
    failed = seed % SIZE
    programs[failed] = quiet(0.2, 9)
    yod, _ = play(seed, programs)
    assert yod.machine.report.exit_status == 9
    told = [text for text in yod.said if f"rank {failed} " in text and "exit code 9" in text]
    assert len(told) == 1, yod.said


# -- daemons, nodes and links -----------------------------------------------


@pytest.mark.parametrize("seed", MANY)
@pytest.mark.parametrize("victim", [Victim.ROOT, Victim.INNER, Victim.LEAF])
def test_a_pct_that_dies_is_a_lost_node_at_once(victim: Victim, seed: int):
    yod, _ = play(seed, None, during(victim, seed, back_s=20.0), mix=LASTS)
    assert yod.machine.report.exit_status == 125
    assert "was lost" in yod.machine.report.reason, yod.said
    assert took(yod) < PROMPT_S


@pytest.mark.parametrize("seed", MANY)
@pytest.mark.parametrize("victim", [Victim.ROOT, Victim.INNER, Victim.LEAF])
def test_a_node_without_power_is_lost_in_the_time_of_a_silent_peer(victim: Victim, seed: int):
    yod, _ = play(seed, None, during(victim, seed, back_s=60.0, is_silent=True), mix=LASTS)
    assert yod.machine.report.exit_status == 125
    assert "was lost" in yod.machine.report.reason, yod.said
    assert took(yod) < LIMITS.silent_s + 4 * LIMITS.end_s


@pytest.mark.parametrize("seed", MANY)
def test_a_job_goes_on_without_bebopd(seed: int):
    fault = during(Victim.BEBOPD, seed, back_s=3.0)
    yod, _ = play(seed, None, fault, mix=replace(CALM, seconds=2.0))
    assert yod.machine.report.exit_status == 0


@pytest.mark.parametrize("seed", MANY)
@pytest.mark.parametrize("victim", [Victim.LINK, Victim.CUT, Victim.CUT_YOD])
def test_a_link_that_is_lost_ends_the_job_with_the_node_behind_it(victim: Victim, seed: int):
    yod, _ = play(seed, None, during(victim, seed, back_s=200.0), mix=LASTS)
    assert yod.machine.report.exit_status == 125
    assert "lost" in yod.machine.report.reason, yod.machine.report.reason
    assert took(yod) < LIMITS.silent_s + 4 * LIMITS.end_s


@pytest.mark.parametrize("seed", MANY)
def test_a_pct_that_stands_still_for_too_long_is_a_lost_node(seed: int):
    fault = during(Victim.STOP_PCT, seed, back_s=60.0, is_silent=True)
    yod, _ = play(seed, None, fault, mix=LASTS)
    assert yod.machine.report.exit_status == 125
    assert "was lost" in yod.machine.report.reason, yod.said
    assert took(yod) < LIMITS.silent_s


@pytest.mark.parametrize("seed", MANY)
def test_a_pct_that_is_stopped_for_a_moment_costs_nothing(seed: int):
    mix = replace(CALM, writes=20, seconds=3.0)
    fault = during(Victim.STOP_PCT, seed, back_s=5.0)
    yod, _ = play(seed, None, fault, mix=mix)
    demand_all_is_there(yod)


@pytest.mark.parametrize("seed", MANY)
def test_a_yod_that_is_stopped_and_continued_loses_nothing(seed: int):
    mix = replace(CALM, writes=20, seconds=3.0)
    fault = during(Victim.STOP_YOD, seed, back_s=5.0)
    yod, _ = play(seed, None, fault, mix=mix, options=Options())
    demand_all_is_there(yod)


# -- output ----------------------------------------------------------------


@pytest.mark.parametrize("seed", MANY)
@pytest.mark.parametrize("style", [Style.WHOLE, Style.LABELLED, Style.MERGED, Style.RAW])
def test_much_output_of_all_ranks_reaches_a_slow_reader_in_bounded_memory(style: Style, seed: int):
    """The rules hold the queues of all PCTs and of yod to their windows."""
    reader = (Reader.SLOW, Reader.STOPS)[seed % 2]
    programs = [writer(12, 60_000)] * SIZE
    yod, _ = play(seed, programs, reader=reader, options=Options(style=style))
    demand_all_is_there(yod)


@pytest.mark.parametrize("seed", MANY)
@pytest.mark.parametrize("style", [Style.WHOLE, Style.LABELLED, Style.MERGED])
def test_a_line_without_an_end_costs_no_line_of_others(style: Style, seed: int):
    programs = [writer(6, 60_000)] * SIZE
    yod, _ = play(seed, programs, patterns={seed % SIZE: b"x"}, options=Options(style=style))
    demand_all_is_there(yod)


@pytest.mark.parametrize("seed", MANY)
@pytest.mark.parametrize("style", [Style.WHOLE, Style.LABELLED, Style.MERGED, Style.RAW])
def test_nuls_and_bytes_that_are_no_text_come_as_they_are(style: Style, seed: int):
    """Of one rank without any end of a line, of another with."""
    patterns = {seed % SIZE: NO_LINES, (seed + 1) % SIZE: NO_LINES + b"\n"}
    programs = [writer(6, 60_000)] * SIZE
    yod, _ = play(seed, programs, patterns=patterns, options=Options(style=style))
    demand_all_is_there(yod)


@pytest.mark.parametrize("seed", MANY)
def test_ranks_that_close_their_output_go_on(seed: int):
    yod, _ = play(seed, [closer(8.0)] * SIZE)
    assert yod.machine.report.exit_status == 0
    assert took(yod) > 8.0


@pytest.mark.parametrize("seed", MANY)
def test_an_output_that_cannot_be_written_ends_the_job(seed: int):
    mix = replace(LASTS, writes=10)
    yod, _ = play(seed, mix=mix, reader=Reader.FAILS)
    assert yod.machine.report.exit_status == 125
    assert "Bad file descriptor" in yod.machine.report.reason


@pytest.mark.parametrize("seed", MANY)
def test_a_reader_that_leaves_ends_the_job_quietly(seed: int):
    mix = replace(LASTS, writes=10)
    yod, _ = play(seed, mix=mix, reader=Reader.LEAVES)
    assert yod.machine.report.exit_status == 128 + signal.SIGPIPE


@pytest.mark.parametrize("seed", MANY)
def test_the_output_of_a_job_of_a_hundredth_of_a_second_is_all_there(seed: int):
    yod, _ = play(seed, mix=replace(CALM, seconds=0.01))
    demand_all_is_there(yod)


# -- names -----------------------------------------------------------------


def refused(yod: YodActor) -> str:
    """What is said of a program that no rank could begin, in one line."""
    (line,) = [text for text in yod.said if "cannot" in text]
    return line


@pytest.mark.parametrize("seed", MANY)
def test_names_and_words_that_are_no_text_reach_the_ranks_and_are_shown_as_a_shell_does(seed: int):
    words = (b"caf\xe9", b"\xe9!", b"")
    yod, _ = play(seed, words=words)
    assert yod.machine.report.exit_status == 0
    assert yod.truth is not None
    assert yod.truth.words == {words}
    missing = replace(quiet(), start=Start(error=errno.ENOENT, interpreter="/caf\udce9"))
    yod, _ = play(seed, [missing] * SIZE, words=words)
    assert yod.machine.report.exit_status == 127
    assert r"$'/caf\351'" in refused(yod)


@pytest.mark.parametrize("seed", MANY)
def test_a_script_with_carriage_returns_is_named_as_such(seed: int):
    script = replace(quiet(), start=Start(error=errno.ENOENT, interpreter="/bin/sh\r"))
    yod, _ = play(seed, [script] * SIZE)
    assert yod.machine.report.exit_status == 127
    assert "ends in a carriage return: convert it with dos2unix" in refused(yod)
