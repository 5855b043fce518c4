"""Slots are given once, and come back; a freed slot costs as much with few tasks as with many."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from yod.pilot.model.sizes import GPU_PARTS, ChosenSlot, Need, NodeSize
from yod.pilot.scheduler.queue import PASSED_MAX, TRIES_MAX, Waiting
from yod.pilot.scheduler.slots import Slots

SIZES = st.lists(
    st.builds(
        NodeSize,
        name=st.just("n"),
        cores=st.integers(1, 6),
        gpus=st.integers(0, 3),
        mem_mb=st.sampled_from([0, 1000]),
    ),
    min_size=1,
    max_size=4,
)
NEEDS = st.builds(
    Need,
    ranks=st.integers(1, 5),
    cores=st.integers(1, 3),
    gpu_parts=st.sampled_from([0, 0, GPU_PARTS // 3, GPU_PARTS // 2, GPU_PARTS, 2 * GPU_PARTS]),
    mem_mb=st.sampled_from([0, 300]),
    is_spread=st.booleans(),
    ranks_per_node=st.sampled_from([0, 0, 1, 2]),
    tag=st.sampled_from(["", "", "a", "b"]),
    is_exclusive=st.booleans(),
)


@settings(max_examples=60, deadline=None)
@given(SIZES, st.lists(NEEDS, max_size=30), st.randoms(use_true_random=False))
def test_what_is_given_is_free_and_comes_back_whole(sizes, needs, random):
    slots = Slots(sizes)
    held = []
    for need in needs:
        placed = slots.place(need)
        slots.check()
        if placed is not None:
            assert len(placed) == need.ranks
            assert need.is_spread or len({slot.node for slot in placed}) == 1
            held.append((placed, need))
        if held and random.random() < 0.4:
            slots.free(*held.pop(random.randrange(len(held))))
            slots.check()
    taken = [(s.node, core) for placed, _ in held for s in placed for core in s.cores]
    assert len(set(taken)) == len(taken)
    while held:
        slots.free(*held.pop())
    slots.check()
    assert slots.free_cores == slots.cores
    assert all(node.is_whole for node in slots.nodes)


@settings(max_examples=60, deadline=None)
@given(SIZES, NEEDS)
def test_a_task_that_can_run_has_room_when_all_is_free(sizes, need):
    slots = Slots(sizes)
    why = slots.why_never(need)
    assert (slots.place(need) is None) == bool(why)


def test_parts_of_a_gpu_share_one_and_leave_the_others_whole():
    slots = Slots([NodeSize("n", 8, gpus=2)])
    third = Need(gpu_parts=GPU_PARTS // 3)
    gpus = [slots.place(third)[0].gpus for _ in range(3)]
    assert gpus == [(0,)] * 3
    assert slots.place(Need(gpu_parts=GPU_PARTS))[0].gpus == (1,)
    assert slots.place(Need(gpu_parts=GPU_PARTS)) is None


def test_tasks_with_one_tag_lie_on_one_node_and_an_exclusive_one_alone():
    slots = Slots([NodeSize("a", 2), NodeSize("b", 2), NodeSize("c", 2)])
    tagged = Need(tag="t", is_exclusive=True)
    first, second = slots.place(tagged), slots.place(tagged)
    assert first[0].node == second[0].node
    assert slots.place(tagged) is None
    others = [slots.place(Need())[0].node for _ in range(4)]
    assert first[0].node not in others
    slots.free(first, tagged)
    assert slots.place(Need()) is None
    assert slots.place(tagged)[0].node == first[0].node


def test_a_pilot_of_one_core_runs_one_task_at_a_time():
    waiting = Waiting(Slots([NodeSize("n", 1)]))
    for n in range(3):
        waiting.add(f"t{n}", Need())
    (first,) = waiting.start()
    assert waiting.start() == []
    waiting.slots.free(first.slots, first.need)
    assert [each.uid for each in waiting.start()] == ["t1"]


def test_priority_goes_before_size_and_size_before_age():
    waiting = Waiting(Slots([NodeSize("n", 4)]))
    waiting.add("small", Need())
    waiting.add("large", Need(cores=3))
    waiting.add("urgent", Need(), priority=1)
    assert [each.uid for each in waiting.start()] == ["urgent", "large"]


@pytest.mark.parametrize("count", [10, 20_000])
def test_a_freed_slot_costs_one_try_for_each_line(count):
    waiting = Waiting(Slots([NodeSize("n", 2)]))
    for n in range(count):
        waiting.add(f"t{n}", Need(cores=1 + n % 2))
    held = waiting.start()
    before = waiting.tries
    waiting.slots.free(held[0].slots, held[0].need)
    waiting.start()
    assert waiting.tries - before <= 4


def test_a_thousand_lines_cost_a_bounded_number_of_tries():
    waiting = Waiting(Slots([NodeSize("n", 8, mem_mb=100)]))
    for n in range(1000):
        waiting.add(f"t{n}", Need(cores=8, mem_mb=1 + n % 100), priority=n)
    waiting.start()
    before = waiting.tries
    waiting.start()
    assert waiting.tries - before <= TRIES_MAX


def test_a_large_task_is_passed_only_so_often():
    waiting = Waiting(Slots([NodeSize("n", 2)]))
    waiting.add("t", Need())
    (held,) = waiting.start()
    waiting.add("large", Need(cores=2))
    begun = 0
    while True:
        waiting.add(f"s{begun}", Need())
        small = waiting.start()
        if not small:
            break
        begun += 1
        waiting.slots.free(small[0].slots, small[0].need)
    assert begun == PASSED_MAX
    waiting.slots.free(held.slots, held.need)
    assert waiting.start()[0].uid == "large"


def test_a_task_that_waits_says_for_what():
    waiting = Waiting(Slots([NodeSize("n", 1)]))
    waiting.add("a", Need())
    waiting.add("b", Need())
    waiting.start()
    assert "0 of 1 are free" in waiting.why("b")
    assert waiting.remove("b")
    assert not waiting.remove("b")
    assert waiting.why("b") == ""


def test_a_task_too_large_for_any_node_is_named_with_the_numbers():
    slots = Slots([NodeSize("n", 4), NodeSize("m", 2)])
    assert slots.why_never(Need(cores=8)).startswith("a rank needs 8 cores; the largest node has 4")
    assert "room for 6" in slots.why_never(Need(ranks=7, is_spread=True))
    assert slots.why_never(Need(ranks=6, is_spread=True)) == ""


def chosen(*slots, cores=1, **entries):
    return Need(len(slots), cores, is_spread=True, chosen=slots, **entries)


def test_what_the_application_has_chosen_is_taken_and_nothing_else():
    slots = Slots([NodeSize("a", 2, 2), NodeSize("b", 4, 2)])
    need = chosen(
        ChosenSlot(1, "", (3, 1), (1,)), ChosenSlot(-1, "a", (1, 0), (0,)), cores=2, gpu_parts=1000
    )
    assert slots.why_never(need) == ""
    first, second = placed = slots.place(need)
    assert (first.node, first.cores, first.gpus) == (1, (3, 1), (1,))
    assert (second.node, second.cores, second.gpus) == (0, (1, 0), (0,))
    slots.check()
    assert slots.place(chosen(ChosenSlot(1, "", (0, 1)), cores=2)) is None
    slots.check()
    assert [slot.cores for slot in slots.place(Need(2, 1))] == [(0,), (2,)]
    slots.free(placed, need)
    slots.check()
    assert slots.free_cores == 4


def test_a_choice_that_is_partly_free_takes_nothing():
    slots = Slots([NodeSize("a", 2)])
    slots.place(chosen(ChosenSlot(0, "", (1,))))
    assert slots.place(chosen(ChosenSlot(0, "", (0,)), ChosenSlot(0, "", (1,)))) is None
    slots.check()
    assert slots.free_cores == 1


@pytest.mark.parametrize(
    "slot, why",
    [
        (ChosenSlot(2, "", (0,)), "'slots' has rank 0 on node 2, which the pilot does not have"),
        (ChosenSlot(-1, "c", (0,)), "node c, which the pilot does not have"),
        (ChosenSlot(0, "", (2,)), "node 0, which has 2 cores and no core 2"),
        (ChosenSlot(0, "", (0,), (0,)), "node 0, which has 0 GPUs and no GPU 0"),
        (ChosenSlot(1, "", (0,)), "node 1, which is a backup node"),
    ],
)
def test_a_choice_that_there_is_not_is_never_met_and_says_why(slot, why):
    slots = Slots([NodeSize("a", 2), NodeSize("b", 2)], backups=1)
    assert why in slots.why_never(chosen(slot))
    assert slots.place(chosen(slot)) is None


def test_ranks_that_want_more_of_a_node_together_than_it_has_are_never_met():
    slots = Slots([NodeSize("a", 2, mem_mb=100)])
    need = chosen(ChosenSlot(0, "", (0,)), ChosenSlot(0, "", (1,)), mem_mb=60)
    assert "has not so much for all ranks" in slots.why_never(need)


def test_a_backup_node_takes_the_place_of_a_lost_one_and_only_then():
    slots = Slots([NodeSize("a", 2), NodeSize("b", 2), NodeSize("c", 2)], backups=2)
    assert (slots.cores, slots.free_cores) == (2, 2)
    held = slots.place(Need(2))
    assert slots.place(Need()) is None
    slots.lose(1)  # a backup node that has not been needed
    assert slots.cores == 2
    slots.lose(0)
    slots.check()
    assert (slots.cores, slots.free_cores) == (2, 2)
    slots.free(held, Need(2))
    assert {slot.node for slot in slots.place(Need(2))} == {2}
    slots.lose(0)
    slots.lose(2)
    slots.check()
    assert (slots.cores, slots.free_cores) == (0, 0)
    assert "is lost" in slots.why_never(chosen(ChosenSlot(2, "", (0,))))
