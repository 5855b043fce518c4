"""The forms of staging directives, and what they do to files."""

from __future__ import annotations

import os
import socket
import threading

import pytest

from native.errors import UsageError
from yod.pilot.files.attempt import failure_of
from yod.pilot.files.staging import bring, bring_all
from yod.pilot.model import staging
from yod.pilot.model.staging import Place, directive_of, directives_of


@pytest.mark.parametrize(
    "text, is_input, source, target",
    [
        ("a", True, ("client", "a"), ("task", "a")),
        ("d/a", True, ("client", "d/a"), ("task", "a")),
        ("a > b", True, ("client", "a"), ("task", "b")),
        ("b < a", True, ("client", "a"), ("task", "b")),
        ("a >> b", True, ("client", "a"), ("task", "b")),
        ("b << a", True, ("client", "a"), ("task", "b")),
        ("/x/a", True, ("file", "/x/a"), ("task", "a")),
        ("a > pilot:///d/", True, ("client", "a"), ("pilot", "d/a")),
        ("a", False, ("task", "a"), ("client", "a")),
        ("a > r/", False, ("task", "a"), ("client", "r/a")),
        ("pilot:///x > b", False, ("pilot", "x"), ("client", "b")),
    ],
)
def test_a_text_names_source_and_target(text, is_input, source, target):
    found = directive_of(text, is_input, "task t")
    assert (found.source, found.target) == (Place(*source), Place(*target))
    assert (found.action, found.flags) == (staging.TRANSFER, staging.CREATE_PARENTS)


def test_a_dictionary_has_more_to_say():
    found = directive_of(
        {"source": "session:///a", "action": "link", "flags": [1, 4], "priority": 3}, True, "t"
    )
    assert found.action == staging.LINK
    assert not found.is_fatal
    assert not found.is_clients
    assert found.target == Place("task", "a")


def test_directives_go_by_priority():
    found = directives_of(["a", {"source": "b", "priority": 2}, "c"], True, "t")
    assert [each.source.path for each in found] == ["b", "a", "c"]


@pytest.mark.parametrize(
    "asked, text",
    [
        ("task:///../b", "the path leaves task://"),
        ("a > task:///c/../../b", "the path leaves task://"),
        ("../a", "the path leaves client://"),
        ("task://host/b", "'host' would be a host; write task:///"),
        ("file://host/b", "file:// is followed by /PATH"),
        ("moon:///b", "there is no place moon://"),
        ({"source": "a", "sauce": 1}, "there is no key 'sauce'"),
        ({"source": "a", "action": "teleport"}, "'action' is 'teleport'"),
        ({"source": "a", "flags": 8}, "'flags' is 8"),
        ({"source": "client:///a", "action": "Link"}, "client:// is not there"),
        ({"source": "http://h/a"}, "is the source of Download"),
        ({"target": "a"}, "is no path"),
        (7, "neither a text nor a dictionary"),
    ],
)
def test_a_wrong_directive_is_refused(asked, text):
    with pytest.raises(UsageError) as refused:
        directive_of(asked, True, "task t")
    assert text in str(refused.value)
    assert str(refused.value).startswith("task t: ")


@pytest.fixture
def roots(tmp_path):
    found = {name: str(tmp_path / name) for name in ("client", "task", "pilot", "session")}
    for path in found.values():
        os.mkdir(path)
    (tmp_path / "client/a").write_text("text")
    (tmp_path / "client/d").mkdir()
    (tmp_path / "client/d/b").write_text("inside")
    return found


def read(roots, schema, path):
    with open(os.path.join(roots[schema], path), encoding="ascii") as file:
        return file.read()


def test_files_are_copied_moved_and_linked(roots):
    copy = directive_of("a > task:///new/place/a", True, "t")
    assert bring(copy, roots) == ""
    assert read(roots, "task", "new/place/a") == "text"
    move = {"source": "task:///new/place/a", "target": "pilot:///m", "action": staging.MOVE}
    assert bring(directive_of(move, True, "t"), roots) == ""
    assert os.listdir(roots["task"] + "/new/place") == []
    link = {"source": "pilot:///m", "target": "task:///l", "action": staging.LINK}
    assert bring(directive_of(link, True, "t"), roots) == ""
    assert os.readlink(roots["task"] + "/l") == roots["pilot"] + "/m"
    assert read(roots, "task", "l") == "text"


def test_a_directory_needs_the_flag(roots):
    assert "RECURSIVE" in bring(directive_of("d", True, "t"), roots)
    whole = {"source": "d", "flags": staging.RECURSIVE}
    assert bring(directive_of(whole, True, "t"), roots) == ""
    assert read(roots, "task", "d/b") == "inside"


def test_a_missing_source_is_named_and_fatal_unless_it_may_be(roots):
    every = directives_of(["none", "a"], True, "t")
    tried = bring_all(every, roots)
    assert failure_of(tried) == "client:///none > task:///none: the source is missing"
    assert len(tried) == 1
    every = directives_of([{"source": "none", "flags": staging.NON_FATAL}, "a"], True, "t")
    tried = bring_all(every, roots)
    assert (len(tried), failure_of(tried)) == (2, "")
    assert read(roots, "task", "a") == "text"


def test_a_link_in_a_sandbox_leads_nowhere_else(roots):
    os.symlink(roots["client"], roots["task"] + "/out")
    failure = bring(directive_of("a > task:///out/stolen", True, "t"), roots)
    assert "leaves task:// by a link" in failure
    assert "stolen" not in os.listdir(roots["client"])


def test_an_archive_is_unpacked_and_cannot_leave(roots, tmp_path):
    import tarfile

    with tarfile.open(roots["client"] + "/x.tar", "w") as archive:
        archive.add(roots["client"] + "/a", "sub/a")
    asked = {"source": "x.tar", "action": staging.TARBALL}
    assert bring(directive_of(asked, True, "t"), roots) == ""
    assert read(roots, "task", "sub/a") == "text"
    with tarfile.open(roots["client"] + "/evil.tar", "w") as archive:
        archive.add(roots["client"] + "/a", "../evil")
    asked = {"source": "evil.tar", "action": staging.TARBALL}
    assert bring(directive_of(asked, True, "t"), roots) != ""
    assert not (tmp_path / "evil").exists()


@pytest.fixture
def web():
    """An address whose server gives one answer, whatever is asked."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve(answer):
            end, _ = server.accept()
            with end:
                while b"\r\n\r\n" not in (end.recv(65536)):
                    pass
                end.sendall(answer)

        def answers(answer):
            threads.append(threading.Thread(target=serve, args=(answer,), daemon=True))
            threads[-1].start()
            return f"http://127.0.0.1:{server.getsockname()[1]}"

        threads = []
        yield answers
    for thread in threads:
        thread.join()


def test_a_file_comes_from_the_web(roots, web):
    address = web(b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nwhole")
    asked = {"source": f"{address}/a", "target": "task:///new/a", "action": staging.DOWNLOAD}
    assert bring(directive_of(asked, True, "t"), roots) == ""
    assert read(roots, "task", "new/a") == "whole"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"HTTP/1.0 404 Not Found\r\n\r\n", "HTTP Error 404: Not Found"),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 9\r\n\r\nhalf", "the last 5 bytes have not come"),
        (b"nonsense\r\n\r\n", "nonsense"),
    ],
)
def test_a_file_that_does_not_come_whole_from_the_web_says_why(roots, web, answer, why):
    asked = {"source": f"{web(answer)}/a", "action": staging.DOWNLOAD}
    assert bring(directive_of(asked, True, "t"), roots).endswith(f": {why}")


def test_what_is_no_address_of_the_web_says_so(roots):
    asked = {"source": "http://127.0.0.1/a b", "target": "a", "action": staging.DOWNLOAD}
    assert "URL can't contain control characters" in bring(directive_of(asked, True, "t"), roots)
