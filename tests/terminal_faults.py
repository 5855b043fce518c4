"""What may go wrong while yod is the terminal of a job, and the tests that hold each.

Each fault has a test on several hosts, and a schedule in the simulation, where the same machines
meet it under many seeds. tests/unit/test_terminal_faults.py holds the table to the tests.
"""

from __future__ import annotations

from typing import NamedTuple

HOSTS = "tests/system/test_terminal_faults.py"
SIMULATION = "tests/sim/test_terminal_faults.py"


class Fault(NamedTuple):
    """One fault.

    Attributes:
        what: goes wrong.
        on_hosts: tests, ``FILE::NAME``; the name alone is one of :data:`HOSTS`.
        schedules: likewise, of :data:`SIMULATION`.
    """

    what: str
    on_hosts: tuple[str, ...]
    schedules: tuple[str, ...]


FAULTS = (
    # Signals.
    Fault(
        "a signal other than TERM, INT and KILL: to the rank alone unless asked",
        (
            "tests/system/test_signal_tree.py::test_a_signal_that_yod_passes_on_reaches_helpers_only_when_asked",
        ),
        ("test_a_signal_is_passed_to_each_rank_once",),
    ),
    Fault(
        "an interrupt: to the whole group of each rank",
        ("tests/system/test_signal_tree.py::test_an_interrupt_reaches_the_helpers_of_all_ranks",),
        ("test_a_second_interrupt_kills_ranks_that_ignore_sigterm",),
    ),
    Fault(
        "a rank ignores SIGTERM",
        (
            "test_ranks_that_ignore_sigterm_are_killed_by_the_second_interrupt",
            "test_ranks_that_ignore_sigterm_are_killed_where_another_has_failed",
        ),
        (
            "test_a_second_interrupt_kills_ranks_that_ignore_sigterm",
            "test_ranks_that_ignore_sigterm_are_killed_where_another_has_failed",
        ),
    ),
    Fault(
        "grandchildren, and daemons that have forked twice",
        ("test_what_ranks_leave_behind_ends_with_the_job",),
        (
            "test_what_ranks_leave_behind_ends_with_the_job",
            "tests/sim/test_host_faults.py::test_nothing_is_left_of_keepers_that_are_killed",
        ),
    ),
    # Failures.
    Fault(
        "a rank fails",
        ("test_the_first_failure_is_told_once_with_its_last_words_and_the_cause_of_the_others",),
        ("test_the_first_failure_is_the_jobs_and_told_once",),
    ),
    Fault(
        "a rank dies by a signal",
        (
            "tests/system/test_dying.py::test_a_rank_that_dies_by_a_signal_shows_its_frames_of_python_and_c",
        ),
        ("tests/sim/test_partition.py::test_all_rules_hold",),
    ),
    Fault(
        "an uncaught exception of Python",
        ("tests/system/test_uncaught.py::test_a_job_ends_when_a_rank_raises_whose_threads_go_on",),
        ("test_the_first_failure_is_the_jobs_and_told_once",),
    ),
    Fault(
        "a node is lost",
        ("tests/system/test_bulk_hosts.py::test_power_off_while_the_job_runs",),
        ("test_a_node_without_power_is_lost_in_the_time_of_a_silent_peer",),
    ),
    Fault(
        "a PCT is lost",
        ("test_a_killed_pct_is_named_and_the_others_are_killed_at_yods_request",),
        (
            "test_a_pct_that_dies_is_a_lost_node_at_once",
            "tests/sim/test_small_tree.py::test_a_process_dies_at_any_event",
        ),
    ),
    Fault(
        "bebopd is lost",
        ("test_a_job_goes_on_when_bebopd_is_killed_and_says_what_it_could_not_confirm",),
        (
            "test_a_job_goes_on_without_bebopd",
            "tests/sim/test_small_tree.py::test_a_process_dies_at_any_event",
        ),
    ),
    Fault(
        "a link is lost",
        ("tests/system/test_bulk_hosts.py::test_a_cable_pulled_while_the_job_runs",),
        ("test_a_link_that_is_lost_ends_the_job_with_the_node_behind_it",),
    ),
    Fault(
        "a PCT is stopped",
        ("test_a_stopped_pct_of_another_host_is_a_lost_node",),
        (
            "test_a_pct_that_stands_still_for_too_long_is_a_lost_node",
            "test_a_pct_that_is_stopped_for_a_moment_costs_nothing",
        ),
    ),
    Fault(
        "yod is stopped and continued",
        (
            "test_a_yod_that_is_stopped_and_continued_loses_no_output",
            "tests/system/test_liveness.py::test_a_stopped_yod_on_another_host_keeps_its_job_until_its_host_is_cut",
        ),
        ("test_a_yod_that_is_stopped_and_continued_loses_nothing",),
    ),
    # Output.
    Fault(
        "a gigabyte from each of four ranks; a slow reader",
        ("test_a_gigabyte_of_each_of_four_ranks_comes_through_several_hosts",),
        ("test_much_output_of_all_ranks_reaches_a_slow_reader_in_bounded_memory",),
    ),
    Fault(
        "very many lines from each of 64 ranks",
        ("test_the_lines_of_64_ranks_that_write_much_are_whole_and_in_order",),
        (
            "test_much_output_of_all_ranks_reaches_a_slow_reader_in_bounded_memory",
            "tests/sim/test_partition.py::test_output_is_whole_and_in_order",
        ),
    ),
    Fault(
        "one endless line",
        ("test_a_line_without_an_end_costs_no_line_of_another_host",),
        ("test_a_line_without_an_end_costs_no_line_of_others",),
    ),
    Fault(
        "a rank closes its output and goes on",
        ("test_ranks_that_close_their_output_go_on",),
        ("test_ranks_that_close_their_output_go_on",),
    ),
    Fault(
        "yod's output is closed (>&-), or its reader leaves",
        ("test_a_closed_output_of_yod_ends_the_job_with_one_line",),
        (
            "test_an_output_that_cannot_be_written_ends_the_job",
            "test_a_reader_that_leaves_ends_the_job_quietly",
        ),
    ),
    Fault(
        "a job of a hundredth of a second",
        ("test_the_output_of_a_job_of_a_hundredth_of_a_second_is_all_there",),
        ("test_the_output_of_a_job_of_a_hundredth_of_a_second_is_all_there",),
    ),
    Fault(
        "output with NULs, and bytes that are no text",
        ("test_nuls_and_bytes_that_are_no_text_come_as_they_are",),
        ("test_nuls_and_bytes_that_are_no_text_come_as_they_are",),
    ),
    # Names.
    Fault(
        "names and arguments that are not UTF-8",
        ("test_names_and_words_that_are_no_text_reach_the_ranks_and_are_shown_as_a_shell_does",),
        ("test_names_and_words_that_are_no_text_reach_the_ranks_and_are_shown_as_a_shell_does",),
    ),
    Fault(
        "a script with carriage returns",
        ("test_a_script_with_carriage_returns_is_named_as_such",),
        ("test_a_script_with_carriage_returns_is_named_as_such",),
    ),
)
