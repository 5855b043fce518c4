"""Fair share: what was used, and what follows from it."""

import pytest

from allocator.jobs.charges import Charge
from allocator.queue.rules import Account
from allocator.queue.shares import EVERY_S, Shares

HOUR_S = 3600.0
ALICE, BOB, CAROL = ("physics", 1000), ("physics", 1001), ("maths", 1002)
TWO = {"physics": Account("physics", share=3), "maths": Account("maths", share=1)}


def shares(accounts=TWO, earlier=()):
    found = Shares(earlier)
    found.follow(accounts, HOUR_S)
    return found


def factors(of, *leaves, at=0.0):
    found = of.factors(leaves, at)
    return [round(found[leaf], 4) for leaf in leaves]


def test_who_has_used_nothing_is_first_and_who_has_used_their_share_is_at_a_half():
    of = shares()
    assert factors(of, ALICE, CAROL) == [1.0, 1.0]
    of = shares(earlier=[Charge(*ALICE, 300.0, 0.0), Charge(*CAROL, 100.0, 0.0)])
    assert factors(of, ALICE, CAROL) == [0.5, 0.5]


def test_a_user_is_drawn_towards_what_the_account_has_used():
    of = shares(earlier=[Charge(*ALICE, 300.0, 0.0), Charge(*CAROL, 100.0, 0.0)])
    alice, bob, carol = factors(of, ALICE, BOB, CAROL)
    assert bob == round(2 ** -(0.375 / 0.375), 4)  # half of physics' use, of half of its shares
    assert alice == round(2 ** -((0.75 + (0.75 - 0.75) * 0.5) / 0.375), 4)
    assert alice < bob == carol


def test_accounts_are_a_tree():
    tree = {
        "science": Account("science", share=1),
        "physics": Account("physics", "science", share=1),
        "maths": Account("maths", "science", share=3),
        "arts": Account("arts", share=1),
    }
    of = shares(tree, [Charge(*ALICE, 100.0, 0.0)])
    arts = ("arts", 1003)
    alice, carol, other = factors(of, ALICE, CAROL, arts)
    assert alice == round(2 ** -(1.0 / 0.125), 4)
    assert carol == round(2 ** -(0.75 / 0.375), 4)
    assert other == 1.0


def test_without_accounts_users_have_equal_shares():
    of = shares({}, [Charge("", 1000, 300.0, 0.0), Charge("", 1001, 100.0, 0.0)])
    assert factors(of, ("", 1000), ("", 1001)) == [round(2**-1.5, 4), round(2**-0.5, 4)]


def test_what_was_used_counts_half_after_a_half_life():
    of = shares(earlier=[Charge(*ALICE, 100.0, 0.0)])
    assert of.used(ALICE, HOUR_S) == pytest.approx(50.0)
    assert of.used(ALICE, 3 * HOUR_S) == pytest.approx(12.5)


def test_a_job_that_runs_is_counted_as_one_that_has_ended():
    running, ended = shares(), shares()
    running.begins(ALICE, 1, 4, 0.0)
    charge = ended.ends(ALICE, 1, 4, 0.0, HOUR_S)
    assert running.used(ALICE, HOUR_S) == pytest.approx(charge.slot_s)
    assert running.ends(ALICE, 1, 4, 0.0, HOUR_S).slot_s == pytest.approx(charge.slot_s)
    assert 0.5 * 4 * HOUR_S < charge.slot_s < 4 * HOUR_S


def test_a_short_job_uses_its_slot_seconds():
    assert shares().ends(ALICE, 1, 4, 100.0, 101.0).slot_s == pytest.approx(4.0, rel=1e-3)


def test_a_job_that_is_withdrawn_has_used_nothing():
    of = shares()
    of.begins(ALICE, 1, 4, 0.0)
    of.forget(1)
    of.forget(1)
    assert of.used(ALICE, HOUR_S) == 0.0


def test_a_clock_that_is_set_back_makes_nobody_owe_more_or_less():
    of = shares(earlier=[Charge(*ALICE, 100.0, HOUR_S)])
    assert of.used(ALICE, 0.0) == 100.0
    charge = of.ends(ALICE, 1, 1, 0.0, 10.0)
    assert charge.at == HOUR_S
    assert 100.0 < charge.slot_s < 110.0


def test_factors_are_those_of_the_last_whole_multiple():
    of = shares(earlier=[Charge(*ALICE, 100.0, 0.0)])
    of.begins(CAROL, 1, 4, 0.0)
    first = factors(of, ALICE, at=5 * EVERY_S)
    assert factors(of, ALICE, at=5 * EVERY_S + 0.9 * EVERY_S) == first
    assert factors(of, ALICE, at=6 * EVERY_S) != first
