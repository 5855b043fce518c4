"""The checker of profiles: what the reference orders is right, and each disorder is found."""

from __future__ import annotations

import pytest

from native.errors import YodError
from yod.pilot.analysis.checker import check, check_file
from yod.pilot.analysis.records import Record, aligned, parse
from yod.pilot.profile.writer import Writer

RUN = [
    *("task_start", "task_mkdir", "task_mkdir_done", "task_run_start", "task_run_ok"),
    *("launch_start", "launch_pre", "launch_submit", "exec_start", "exec_pre", "rank_start"),
    *("rank_stop", "exec_post", "exec_stop", "launch_collect", "launch_post", "launch_stop"),
    *("unschedule_start", "task_run_stop"),
]
EXECUTING = "pilot.0000/agent_executing.0000.prof"


def profile(name, rows, start=100.0):
    """Records, one each 0.1 s: ``event``, ``event:uid``, ``event:uid:state`` or with a message."""
    component = name.rpartition("/")[2].removesuffix(".prof")
    sync = Record(start, "sync_abs", component, "", "", f"n1:10.0.0.1:{start}:{start}:sys")
    records = [sync]
    for n, row in enumerate(rows, 1):
        event, uid, state, msg = (*row.split(":"), "", "", "")[:4]
        records.append(Record(start + n / 10, event, component, uid, state, msg))
    return records


def executing(events):
    return check_file(EXECUTING, profile(EXECUTING, [f"{e}:task.0" for e in events]), "s")


def test_a_run_as_the_reference_has_it_is_right():
    assert executing(RUN) == []
    assert executing([*RUN, *RUN]) == []  # it has run again
    assert executing([*RUN[:4], "task_run_fail", *RUN[-2:]]) == []
    assert executing(["task_run_cancel_start", *RUN, "task_run_cancel_stop"]) == []


@pytest.mark.parametrize("n", range(len(RUN) - 1))
def test_two_events_that_are_exchanged_are_found(n):
    events = list(RUN)
    events[n], events[n + 1] = events[n + 1], events[n]
    assert executing(events)


@pytest.mark.parametrize(
    ("lacking", "text"),
    [
        ("task_start", "task_mkdir comes without task_start"),
        ("task_run_start", "task_run_ok comes without task_run_start"),
        ("rank_stop", "rank_start is there, and rank_stop is not"),
        ("exec_start", "rank_start is there, and exec_start is not"),
        ("launch_stop", "launch_start is there, and launch_stop is not"),
        ("unschedule_start", "task_run_stop comes without unschedule_start"),
    ],
)
def test_an_event_that_is_missing_is_found(lacking, text):
    assert executing([event for event in RUN if event != lacking]) == [
        f"{EXECUTING}: task.0: {text}"
    ]


def test_what_belongs_elsewhere_is_found():
    assert executing(["schedule_ok"]) == [
        f"{EXECUTING}: schedule_ok is no event of agent_executing.0000"
    ]
    assert check_file("other.0000.prof", profile("other.0000", []), "s") == [
        "other.0000.prof: there is no such component"
    ]
    foreign = [*profile(EXECUTING, []), *profile("agent_0.prof", ["hostname:pilot.0000"])[1:]]
    assert any("a record of agent_0" in text for text in check_file(EXECUTING, foreign, "s"))
    headless = profile(EXECUTING, [f"{event}:t" for event in RUN])[1:]
    assert check_file(EXECUTING, headless, "s") == [f"{EXECUTING}: it does not begin with sync_abs"]


def test_components_begin_and_end_once():
    name = "tmgr.0000.prof"
    right = ["component_init:t", "component_init:t", "setup_done:t", "component_final:t", "END"]
    assert check_file(name, profile(name, right), "s") == []
    late = [*right[:2], "component_final:t", "setup_done:t", "END"]
    assert (
        "setup_done of t comes behind component_final"
        in check_file(name, profile(name, late), "s")[0]
    )
    assert check_file(name, profile(name, [right[3], *right[:2]]), "s")


def test_what_is_put_has_advanced():
    name = "tmgr_scheduling.0000.prof"
    state = "TMGR_SCHEDULING"
    right = [f"get:t:{state}_PENDING", f"advance:t:{state}", f"publish:t:{state}", f"put:t:{state}"]
    assert check_file(name, profile(name, right), "s") == []
    assert check_file(name, profile(name, [right[0], *right[2:]]), "s")
    assert check_file(name, profile(name, [right[0], right[3], right[1]]), "s")
    assert check_file(name, profile(name, [*right, right[3]]), "s")
    assert check_file(name, profile(name, [*right, right[1]]), "s")


def test_each_file_ends_as_it_has_begun():
    name = "tmgr_staging_input.0000.prof"
    files = ["staging_in_start:t::a", "staging_in_start:t::b", "staging_in_stop:t::a"]
    assert check_file(name, profile(name, [*files, "staging_in_stop:t::b"]), "s") == []
    lost = check_file(name, profile(name, [*files[1:], "staging_in_stop:t::b"]), "s")
    assert lost == [f"{name}: t: staging_in_stop comes without staging_in_start"]


def test_states_are_in_order_over_all_files():
    early = profile("tmgr.0000.prof", ["advance:t:NEW", "advance:t:TMGR_SCHEDULING_PENDING"])
    late = profile("tmgr_scheduling.0000.prof", ["advance:t:TMGR_SCHEDULING"], start=200.0)
    files = {"tmgr.0000.prof": early, "tmgr_scheduling.0000.prof": late}
    assert check(files, "s") == []
    before = profile("tmgr_scheduling.0000.prof", ["advance:t:TMGR_SCHEDULING"], start=100.0)
    wrong = check({**files, "tmgr_scheduling.0000.prof": before}, "s")
    assert wrong == ["t: TMGR_SCHEDULING is earlier than TMGR_SCHEDULING_PENDING"]
    assert check({**files, "tmgr_scheduling.0000.prof": before}, "s", skew_s=0.5) == []
    twice = profile("tmgr_staging_output.0000.prof", ["advance:t:DONE", "advance:t:FAILED"], 300.0)
    wrong = check({**files, "tmgr_staging_output.0000.prof": twice}, "s")
    assert wrong == ["t: it has ended 2 times: DONE, FAILED"]
    nonsense = profile("tmgr.0000.prof", ["advance:t:SOON"])
    assert check({"tmgr.0000.prof": nonsense}, "s") == ["tmgr.0000: t: there is no state SOON"]


def test_profiles_of_several_clocks_are_related_by_their_syncs():
    ntp = [Record(1000.0, "sync_abs", "a", "", "", "n1:1.1.1.1:1000.0:990.0:ntp")]
    ntp.append(Record(1003.0, "sync_rel", "a", "pilot.0", "", "agent_0 start"))
    none = [Record(5.0, "sync_rel", "b", "pilot.0", "", "agent_0 start")]
    none.append(Record(7.5, "hostname", "b", "pilot.0", "", ""))
    moved = aligned({"a": ntp, "b": none})
    assert [one.time for one in moved["a"]] == [990.0, 993.0]
    assert [one.time for one in moved["b"]] == [993.0, 995.5]


def test_records_are_read_as_they_were_written(tmp_path):
    writer = Writer(str(tmp_path), "tmgr.0000", now=lambda: 12.5)
    writer.prof("setup_done", "a,b\nc", msg="x, y")
    writer.close()
    text = (tmp_path / "tmgr.0000.prof").read_text().splitlines(keepends=True)
    sync, done, end = parse(text, "p")
    assert (sync.event, end.event, done.time) == ("sync_abs", "END", 12.5)
    assert (done.uid, done.msg) == ("a;b c", "x; y")
    assert len(list(parse([*text, "13.0,half"], "p"))) == 3
    with pytest.raises(YodError, match="p: line 1: 2 fields; a record has 7"):
        list(parse(["13.0,half\n"], "p"))
    with pytest.raises(YodError, match="'soon' is no time"):
        list(parse(["soon,a,b,c,d,e,f\n"], "p"))


def test_a_writer_goes_on_behind_the_last_whole_line_of_one_that_was_killed(tmp_path):
    Writer(str(tmp_path), "tmgr.0000", now=lambda: 12.5).close()
    path = tmp_path / "tmgr.0000.prof"
    before = path.read_text()
    path.write_text(f"{before}13.0000000,half,tmgr")
    Writer(str(tmp_path), "tmgr.0000", now=lambda: 14.5).close()
    assert path.read_text().startswith(before + "#time")
    assert [one.event for one in parse(path.read_text().splitlines(keepends=True), "p")] == [
        *("sync_abs", "END"),
        *("sync_abs", "END"),
    ]
