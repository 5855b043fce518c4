"""What a PCT hears from a yod-agent and tells it; both ends of the format."""

import pytest

from native.errors import IllegalTransition
from native.wire import agent
from native.wire.agent import AgentError, Command
from pct.wireup.agent import AgentConversation, RunTool

SENT = agent.encode_command(Command(3, b"n1", b"/tmp/x", b"prted --flag 'a b'"))
REQUEST = RunTool(rank=3, host=b"n1", directory=b"/tmp/x", command=b"prted --flag 'a b'")


def test_the_bytes_of_a_command():
    assert SENT == b"cmd=agent rank=3 host=n1 bytes=25\n/tmp/x\0prted --flag 'a b'"


@pytest.mark.parametrize("cut", range(len(SENT)))
def test_a_command_may_come_in_pieces(cut):
    conversation = AgentConversation()
    assert conversation.receive(SENT[:cut]) == []
    assert conversation.receive(SENT[cut:]) == [REQUEST]


def test_a_command_is_started_and_ends():
    conversation = AgentConversation()
    conversation.receive(SENT)
    assert (conversation.is_running, conversation.is_over) == (True, False)
    conversation.started()
    assert conversation.take() == b"cmd=started\n"
    assert (conversation.is_running, conversation.is_over) == (True, False)
    conversation.ended(7 << 8)
    assert conversation.take() == b"cmd=ended wait_status=1792\n"
    assert (conversation.is_running, conversation.is_over) == (False, True)
    assert conversation.take() == b""


def test_a_command_is_refused():
    conversation = AgentConversation()
    conversation.receive(SENT)
    conversation.refused("n1 is no node\nof this job")
    assert conversation.take() == b"cmd=refused n1 is no node of this job\n"
    assert (conversation.is_running, conversation.is_over) == (False, True)


def test_answers_out_of_turn_are_our_own_bugs():
    conversation = AgentConversation()
    with pytest.raises(IllegalTransition):
        conversation.started()
    conversation.receive(SENT)
    with pytest.raises(IllegalTransition):
        conversation.ended(0)
    conversation.started()
    with pytest.raises(IllegalTransition):
        conversation.refused("late")
    assert conversation.take() == b"cmd=started\n"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"cmd=init pmi_version=1\n", "not the first line of an agent"),
        (b"cmd=agent host=n1 rank=3 bytes=3\n", "not the first line of an agent"),
        (b"cmd=agent rank=3 host=n1 bytes=3 more=1\n", "not the first line of an agent"),
        (b"cmd=agent rank=-1 host=n1 bytes=3\n", "rank is not a number"),
        (b"cmd=agent rank=99999999999 host=n1 bytes=3\n", "rank is not a number"),
        (b"cmd=agent rank=3 host= bytes=3\n", "not a host name"),
        (b"cmd=agent rank=3 host=n\xff bytes=3\n", "not a host name"),
        (b"cmd=agent rank=3 host=n1 bytes=0\n", "bytes=0 is not 1..1048576"),
        (b"cmd=agent rank=3 host=n1 bytes=1048577\n", "bytes=1048577 is not 1..1048576"),
        (b"cmd=agent rank=3 host=n1 bytes=3\nabc", "1 parts"),
        (b"cmd=agent rank=3 host=n1 bytes=5\n/\0a\0b", "3 parts"),
        (b"cmd=agent rank=3 host=n1 bytes=3\nx\0a", "not an absolute directory"),
        (b"cmd=agent rank=3 host=n1 bytes=3\n/\0ab", "more than one command"),
        (
            b"cmd=agent rank=3 host=n1 bytes=4099\n" + b"/" * 4097 + b"\0a",
            "directory of 4097 bytes",
        ),
        (b"a" * agent.HEAD_MAX, "the first line does not end"),
    ],
)
def test_an_agent_that_breaks_the_protocol_is_dropped(data, text):
    with pytest.raises(AgentError, match=text.replace(".", r"\.")):
        AgentConversation().receive(data)


def test_an_agent_asks_once():
    conversation = AgentConversation()
    conversation.receive(SENT)
    with pytest.raises(AgentError, match="more than one command"):
        conversation.receive(b"c")


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (Command(0, b"n1", b"/", b"a\0b"), "null character"),
        (Command(0, b"n1", b"/", b"a" * agent.BODY_MAX), "at most 1048576"),
        (Command(0, b"n1", b"/" * 4097, b"a"), "a directory of 4097 bytes, at most 4096"),
        (Command(0, b"n 1", b"/", b"a"), "not a host name"),
        (Command(0, b"", b"/", b"a"), "not a host name"),
        (Command(0, b"n" * agent.HEAD_MAX, b"/", b"a"), "host name is too long"),
    ],
)
def test_an_agent_sends_nothing_that_would_be_dropped(command, text):
    with pytest.raises(AgentError, match=text):
        agent.encode_command(command)


def test_an_agent_understands_each_answer():
    started, ended, refused = (
        agent.decode_answer(line.removesuffix(b"\n"))
        for line in (agent.encode_started(), agent.encode_ended(9), agent.encode_refused("é no"))
    )
    assert (started.is_last, started.wait_status, started.refusal) == (False, None, "")
    assert (ended.is_last, ended.wait_status, ended.refusal) == (True, 9, "")
    assert (refused.is_last, refused.wait_status, refused.refusal) == (True, None, "é no")
    assert len(agent.encode_refused("x" * 10000)) <= agent.ANSWER_MAX


@pytest.mark.parametrize("line", [b"", b"cmd=ended", b"cmd=ended wait_status=-1", b"HTTP/1.1 400"])
def test_an_agent_takes_nothing_else_for_an_answer(line):
    with pytest.raises(AgentError):
        agent.decode_answer(line)
