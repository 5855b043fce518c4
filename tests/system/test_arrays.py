"""Arrays of batch jobs, with real processes."""

from __future__ import annotations

from tests.support.wait import wait_until

STAY = "echo up > said; exec sleep 600"  # until it is told to end


def test_an_array_is_one_row_until_its_elements_begin_and_ends_with_the_last(jobs):
    text = 'echo $YOD_ARRAY_JOB_ID $YOD_ARRAY_INDEX; [ "$YOD_ARRAY_INDEX" != 3 ]'
    array = jobs.submit("-array", "1-3:2%1", text=text)
    assert jobs.wait(array) == 1
    assert (jobs.state(array), jobs.row(array)["reason"]) == (
        "FAILED",
        "1 of 2 elements did not end well",
    )
    assert (jobs.directory / f"yod-{array}_3.out").read_text() == f"{array} 3\n"
    assert jobs.wait(f"{array}_1") == 0
    done = jobs.yodjob("show", f"{array}_2")
    assert done.status == 1
    assert f"{array}_2: this element has not begun" in done.err


def test_elements_begin_as_those_of_another_array_have_ended_also_behind_a_restart(jobs):
    text = "yod true\necho $YOD_ARRAY_INDEX >said\nread line <go\ntest $YOD_ARRAY_INDEX != 2"
    first = jobs.submit("-array", "0-3%1", text=text)
    then = ("--after", f"aftercorr:{first}")
    second = jobs.submit("-array", "0-3", *then, "--wrap", "echo $YOD_ARRAY_INDEX >> order")
    waits = f"element 0 of job {first} is to end well first (aftercorr:{first})"
    assert waits in jobs.yodjob("why", second).out
    jobs.go.say()
    wait_until(lambda: jobs.yodjob("wait", f"{second}_0").status == 0)  # once it has begun
    jobs.said.until("1\n")  # and its nodes are its broker's, whichever bebopd is there
    jobs.partition.bebopd.kill()
    jobs.partition.replace_bebopd()
    for _ in range(3):
        jobs.go.say()
    assert jobs.wait(first) == 1
    assert jobs.wait(second) != 0
    failed = f"element 2 of job {first} has ended and was to end well (aftercorr:{first})"
    assert (jobs.state(second), jobs.row(second)["reason"]) == ("CANCELLED", failed)
    assert failed in jobs.yodjob("why", second).out
    assert sorted((jobs.directory / "order").read_text().split()) == ["0", "1", "3"]
    done = jobs.yodjob("submit", "--after", f"aftercorr:{first}", "--wrap", "true")
    line = f"yodjob: aftercorr:{first}: elements of arrays wait so (-array)\n"
    assert (done.status, done.err) == (1, line)
    done = jobs.partition.yod("--after", f"aftercorr:{first}", "true")
    assert "only arrays of batch jobs wait so (yodjob submit)" in done.err


def test_elements_of_an_array_are_cancelled_by_their_indices(jobs):
    array = jobs.submit("-array", "1-9%1", text=STAY)
    jobs.said.until("up")
    assert jobs.yodjob("cancel", f"{array}_3", f"{array}_[5-8]") == (0, "", "")
    assert jobs.row(array)["left"] == "2,4,9%1"
    assert jobs.yodjob("cancel", f"{array}_1-9") == (0, "", "")
    assert jobs.wait(array) != 0
    done = jobs.yodjob("cancel", f"{array}_2", "17_x")
    assert (done.status, done.err.count("\n")) == (2, 1)
    done = jobs.yodjob("cancel", f"{array}_2")
    assert (done.status, done.err) == (
        1,
        f"yodjob: {array}_2: they have ended, or there are none\n",
    )
