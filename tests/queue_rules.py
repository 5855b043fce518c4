"""For each rule of the queue: the test that shows it on daemons, and what asserts that it holds.

The first part are the steps by which a request becomes an allocation; then each kind of preemption,
and each that one waits for. The latter is checked after every event of worlds in which
everything happens in any order. tests/unit/test_queue_rules.py holds the table to the tests.
"""

from __future__ import annotations

from typing import NamedTuple

UNIT = "tests/unit/allocator"
QUEUES = f"{UNIT}/queue_world.py"
BATCH = f"{UNIT}/batch_world.py"
STEPS_COUNT = 7


class Rule(NamedTuple):
    """One rule.

    Attributes:
        name: a step ``1`` to ``7`` with what it does; or a word of the queue, as in its code.
        on_daemons: tests of tests/system, ``FILE::NAME``.
        always: functions that assert it in worlds of any order, ``PATH::NAME``.
    """

    name: str
    on_daemons: tuple[str, ...]
    always: tuple[str, ...]


STEPS = (
    Rule(
        "1 submit hooks",
        (
            "test_submit_hooks.py::"
            "test_hooks_change_and_refuse_and_those_that_fail_refuse_with_their_names",
            "test_submit_hooks.py::"
            "test_one_that_hangs_is_killed_with_all_that_it_has_started_and_others_go_on",
        ),
        (f"{UNIT}/test_hooked_any_order.py::check",),
    ),
    Rule(
        "2 validation",
        ("test_queues.py::test_what_a_queue_says_holds_for_allocations_and_launches",),
        (f"{QUEUES}::check_limits",),
    ),
    Rule(
        "3 highest priority, or could it ever",
        (
            "test_queues.py::test_the_order_and_what_was_used_outlive_bebopd",
            "test_features.py::test_what_no_node_has_is_refused_at_once",
            "test_begin.py::test_a_trial_says_when_and_where_and_takes_nothing",
        ),
        (
            f"{UNIT}/test_queues_in_days.py::"
            "test_a_lower_priority_delays_none_that_could_have_begun_and_all_run",
        ),
    ),
    Rule(
        "4 candidate nodes",
        (
            "test_features.py::test_launches_allocations_and_batch_jobs_get_nodes_with_the_features",
            "test_features.py::test_so_many_nodes_of_a_job_have_the_features_that_are_counted",
            "test_queues.py::test_no_job_begins_that_would_run_into_a_reservation",
            "test_placement.py::test_a_job_of_any_kind_gets_none_of_the_nodes_that_its_user_excludes",
        ),
        (f"{QUEUES}::check_limits", f"{QUEUES}::check_reserved"),
    ),
    Rule(
        "4 candidate nodes: exclusive or",
        ("test_features.py::test_an_exclusive_or_gives_all_nodes_from_one_set",),
        (f"{QUEUES}::check_limits",),
    ),
    Rule(
        "5 selection",
        (
            "test_placement.py::test_a_job_stays_below_one_leaf_switch_where_it_fits",
            "test_placement.py::"
            "test_who_wants_few_leaf_switches_waits_for_them_and_takes_more_at_its_time",
            "test_placement.py::test_a_job_gets_neighbours_across_the_edge_of_a_torus",
            "test_placement.py::test_a_sites_own_policy_chooses_until_it_fails",
        ),
        (
            f"{QUEUES}::check_switches",
            f"{UNIT}/test_plain_requests.py::"
            "test_jobs_get_the_same_slots_at_the_same_times_as_by_the_general_rule",
        ),
    ),
    Rule(
        "6 preemption",
        ("test_queues.py::test_a_job_and_its_steps_end_for_one_of_another_queue",),
        (f"{QUEUES}::check_preempted",),
    ),
    Rule(
        "7 grant with prolog",
        (
            "test_hooks.py::"
            "test_a_batch_script_begins_when_the_prologs_of_all_its_nodes_have_succeeded",
        ),
        (f"{BATCH}::check_start", f"{BATCH}::check_settled"),
    ),
)

PREEMPTIONS = (  # by the modes of queues, and of launches that give way
    Rule(
        "off",
        ("test_queues.py::test_a_job_whose_queue_is_not_preempted_keeps_its_slots",),
        (f"{QUEUES}::check_preempted",),
    ),
    Rule(
        "cancel",
        (
            "test_queues.py::test_a_job_and_its_steps_end_for_one_of_another_queue",
            "test_queues.py::test_a_broker_that_its_owner_has_stopped_is_killed_for_another",
        ),
        (f"{QUEUES}::check_preempted",),
    ),
    Rule(
        "requeue",
        ("test_queues.py::test_a_job_waits_again_and_goes_on_when_the_other_has_ended",),
        (f"{QUEUES}::check_preempted",),
    ),
    Rule(
        "suspend",
        ("test_lending.py::test_a_job_stands_still_for_another_under_two_bebopds_and_goes_on",),
        (
            f"{QUEUES}::check_standing",
            f"{UNIT}/test_lending_any_order.py::"
            "test_these_worlds_have_jobs_that_stand_still_for_others",
        ),
    ),
    Rule(
        "nice",
        ("test_giving_way.py::test_a_launch_gives_way_to_one_that_does_not_and_says_to_whom",),
        (f"{UNIT}/test_giving_way_any_order.py::check_nobody_is_delayed",),
    ),
)

_AFTER = ("test_batch.py::test_a_job_begins_when_others_have_ended_as_it_needs",)

DEPENDENCIES = (  # by the words of --after
    Rule("after", _AFTER, (f"{BATCH}::check_start",)),
    Rule("afterany", _AFTER, (f"{BATCH}::check_start",)),
    Rule("afterok", _AFTER, (f"{BATCH}::check_start",)),
    Rule("afternotok", _AFTER, (f"{BATCH}::check_start",)),
    Rule(
        "aftercorr",
        (
            "test_arrays.py::"
            "test_elements_begin_as_those_of_another_array_have_ended_also_behind_a_restart",
        ),
        (
            f"{UNIT}/test_corresponding.py::"
            "test_in_any_order_those_begin_whose_counterparts_have_ended_well_and_no_others",
        ),
    ),
    Rule(
        "singleton",
        ("test_batch.py::test_a_singleton_begins_when_earlier_jobs_of_its_name_have_ended",),
        (f"{UNIT}/test_singleton.py::test_jobs_that_wait_behind_one_another_leave_in_any_order",),
    ),
)

RULES = (*STEPS, *PREEMPTIONS, *DEPENDENCIES)
