"""Marks of files that yod writes: what is cut at a restart, and what never is."""

from __future__ import annotations

from native.host.marks import outputs


def marked(path, text: str) -> outputs.Mark:
    path.write_text(text)
    return outputs.mark(str(path), is_of_job=False)


def test_a_file_is_cut_back_to_its_mark_and_once_more(tmp_path):
    path = tmp_path / "out"
    mark = marked(path, "line 1\n")
    for more in ("line 2\n", "line 3\nline 4\n", ""):
        path.write_text("line 1\n" + more)
        assert outputs.cut(mark)
        assert path.read_text() == "line 1\n"


def test_a_file_that_is_shorter_or_another_one_stays_as_it_is(tmp_path):
    path = tmp_path / "out"
    mark = marked(path, "line 1\n")
    for text in ("line", "LINE 1\nline 2\n", ""):
        path.write_text(text)
        assert not outputs.cut(mark)
        assert path.read_text() == text
    path.unlink()
    assert not outputs.cut(mark)
    assert not path.exists()


def test_a_mark_in_a_long_file_knows_what_is_before_it(tmp_path):
    path = tmp_path / "out"
    mark = marked(path, "x" * 1000)
    path.write_text("y" * 500 + "x" * 600)
    assert outputs.cut(mark)  # it has the same before the mark
    assert path.stat().st_size == 1000


def test_the_script_of_a_batch_job_alone_has_its_output():
    assert outputs.batch_job({"YOD_ALLOCATION": "17", "YOD_JOB_ID": "17.0"}) == "17"
    assert outputs.batch_job({"YOD_ALLOCATION": "17", "YOD_JOB_ID": "17.3"}) == ""  # in a step
    assert outputs.batch_job({"YOD_ALLOCATION": "17"}) == ""  # in an allocation
    assert outputs.batch_job({}) == ""


def test_marks_that_cannot_be_read_are_none(tmp_path):
    assert outputs.read(str(tmp_path)) == outputs.Marks("", ())
    (tmp_path / outputs.NAME).write_text('{"batch_job": "17"')
    assert outputs.read(str(tmp_path)) == outputs.Marks("", ())
