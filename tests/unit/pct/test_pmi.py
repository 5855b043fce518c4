"""A connection of a PMI client: versions, order of answers, beginnings and ends, limits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pct.wireup.pmi import conversation as pmi
from pct.wireup.pmi.conversation import OUTSTANDING_MAX, Conversation, PmiError
from tests.support.pmi_client import (
    FULLINIT,
    INIT_1,
    INIT_2,
    JOINED_1,
    JOINED_2,
    Node,
    frame,
    identity,
    joined,
)
from tests.unit.pct.test_pmi1 import MPICH_4_OVER_PORT, MPICH_5_SPAWN
from tests.unit.pct.test_pmi2 import LIBPMI2

GET = b"cmd=get kvsname=yod_7_cafe key=%s\n"
FOUND = b"cmd=get_result rc=0 msg=success value=%s\n"


# -- who it is -----------------------------------------------------------------


def test_over_pmi_port_the_client_says_who_it_is():
    node = Node(rank=None)
    assert node.conversation.rank is None
    told = node.say(b"cmd=initack pmiid=5\n")
    assert told == b"cmd=initack\ncmd=set size=4\ncmd=set rank=1\ncmd=set debug=0\n"
    assert node.conversation.rank == 5 and not node.conversation.has_joined


def test_a_client_whose_rank_is_known_may_say_it_too():
    assert Node(rank=5).say(b"cmd=initack pmiid=5\n").startswith(b"cmd=initack\n")


@pytest.mark.parametrize(
    ("rank", "line", "text"),
    [
        (None, b"cmd=initack pmiid=99", "there is no rank 99 here"),
        (None, b"cmd=initack pmiid=-1", "there is no rank -1 here"),
        (None, b"cmd=initack pmiid=x", "initack: pmiid is b'x'"),
        (None, b"cmd=initack pmiid=99999999999999", "initack: pmiid is b'99999999999999'"),
        (None, b"cmd=initack", "initack: pmiid is b''"),
        (2, b"cmd=initack pmiid=3", "initack: pmiid is b'3'"),
        (99, b"cmd=init pmi_version=1", "there is no rank 99 here"),
        (None, b"cmd=init pmi_version=1", "init before initack: is PMI_ID set?"),
        (2, b"cmd=get_maxes", "b'cmd=get_maxes' before init"),
        (2, b"cmd=abortion", "b'cmd=abortion' before init"),
        (None, b"cmd=abort exitcode=1", "b'cmd=abort exitcode=1' before init"),
        (2, b"mcmd=spawn", "b'mcmd=spawn' before init"),
        (2, b"hello", "b'hello' before init"),
    ],
)
def test_one_who_does_not_say_who_it_is_is_not_heard(rank, line, text):
    with pytest.raises(PmiError) as caught:
        Node(rank).say(line + b"\n")
    assert str(caught.value) == text


def test_a_second_rank_is_not_taken_over_the_same_connection():
    node = Node(rank=None)
    node.say(b"cmd=initack pmiid=2\n")
    with pytest.raises(PmiError):
        node.say(b"cmd=initack pmiid=3\n")


# -- again -----------------------------------------------------------------


def test_a_second_program_of_the_same_rank_may_say_init_again():
    node = Node()
    assert not node.conversation.has_joined
    assert node.say(INIT_1) == JOINED_1
    node.say(b"cmd=finalize\n")
    assert node.say(INIT_1) == JOINED_1
    assert [type(one) for one in node.requests] == [pmi.Joined, pmi.Left, pmi.Joined]


def test_the_next_program_may_speak_the_other_version():
    node = joined(1)
    node.say(b"cmd=finalize\n")
    assert node.say(INIT_2) == JOINED_2
    assert b"rc=0;" in node.say(FULLINIT)
    node.say(frame(b"cmd=finalize;"))
    assert node.say(INIT_1) == JOINED_1


@pytest.mark.parametrize("version", [1, 2])
def test_a_program_that_ended_without_finalize_is_followed_by_another(version):
    """What it had waited for is waited for no longer."""
    conversation = joined(version).conversation
    data = b"cmd=barrier_in\n" if version == 1 else frame(b"cmd=kvs-fence;")
    (fence,) = conversation.receive(data)
    assert conversation.receive(INIT_1) == [pmi.Joined()]
    assert conversation.take() == JOINED_1
    conversation.fenced(fence)
    assert conversation.take() == b""


def test_what_has_been_answered_reaches_the_client_before_it_begins_again():
    told = joined(1).say(b"cmd=finalize\n" + INIT_1)
    assert told == b"cmd=finalize_ack rc=0\n" + JOINED_1


def test_after_finalize_only_init_is_heard():
    node = joined(1)
    node.say(b"cmd=finalize\n")
    with pytest.raises(PmiError):
        node.say(b"cmd=get_maxes\n")


# -- order -----------------------------------------------------------------


def test_answers_keep_the_order_of_their_requests():
    conversation = joined(1).conversation
    first, second = conversation.receive(GET % b"a" + b"cmd=get_appnum\n" + GET % b"b")
    assert conversation.take() == b""
    conversation.found(second, b"2")
    assert conversation.take() == b""
    conversation.found(first, b"1")
    assert conversation.take() == FOUND % b"1" + b"cmd=appnum appnum=0\n" + FOUND % b"2"


def test_two_requests_that_are_equal_have_an_answer_each():
    conversation = joined(1).conversation
    first, second = conversation.receive(GET % b"a" + GET % b"a")
    conversation.found(second, b"2")
    conversation.found(first, b"1")
    assert conversation.take() == FOUND % b"1" + FOUND % b"2"


def test_a_second_answer_to_one_request_is_dropped():
    conversation = joined(1).conversation
    (get,) = conversation.receive(GET % b"a")
    conversation.found(get, b"1")
    conversation.found(get, b"2")
    assert conversation.take() == FOUND % b"1"
    conversation.found(get, b"3")
    assert conversation.take() == b""


def test_answers_given_before_an_error_can_still_be_taken():
    conversation = joined(1).conversation
    with pytest.raises(PmiError):
        conversation.receive(b"cmd=get_appnum\ncmd=explode\n")
    assert conversation.take() == b"cmd=appnum appnum=0\n"
    assert conversation.receive(b"cmd=get_appnum\n") == []
    assert conversation.take() == b""


@pytest.mark.parametrize("version", [1, 2])
def test_a_client_cannot_ask_without_end_while_it_takes_no_answers(version):
    conversation = joined(version).conversation
    one = b"cmd=get_maxes\n" if version == 1 else frame(b"cmd=job-getid;thrid=1;")
    conversation.receive(one * OUTSTANDING_MAX)
    with pytest.raises(PmiError) as caught:
        conversation.receive(one)
    assert str(caught.value) == "more than 256 requests without taking an answer"


@pytest.mark.parametrize("version", [1, 2])
def test_a_client_cannot_wait_for_more_than_a_limit(version):
    conversation = joined(version).conversation
    one = GET % b"a" if version == 1 else frame(b"cmd=info-getnodeattr;thrid=1;key=k;wait=TRUE;")
    with pytest.raises(PmiError):
        for _ in range(OUTSTANDING_MAX + 1):
            conversation.receive(one)
            conversation.take()


def test_a_client_that_takes_its_answers_may_ask_for_ever():
    node = joined(1)
    for _ in range(3 * OUTSTANDING_MAX):
        assert node.say(GET % b"a" + b"cmd=barrier_in\n").endswith(b"cmd=barrier_out rc=0\n")


# -- pieces ----------------------------------------------------------------

ONE = b"".join(said for said, _ in MPICH_4_OVER_PORT[:-1]) + MPICH_5_SPAWN + b"cmd=finalize\n"
TWO = b"".join(said for said, _ in LIBPMI2)
SEVERAL = ONE + TWO + INIT_1 + b"cmd=abort exitcode=7\nx"


def replay(pieces):
    """What a node is asked and a client told by these pieces."""
    node = Node(rank=None)
    told = b"".join(node.say(piece) for piece in pieces)
    return node.requests, told


def cut(data, places):
    ends = sorted({place % len(data) for place in places})
    return [data[a:b] for a, b in zip([0, *ends], [*ends, len(data)], strict=True)]


def bytewise(data):
    return [data[index : index + 1] for index in range(len(data))]


@pytest.mark.parametrize("transcript", [ONE, b"cmd=initack pmiid=2\n" + TWO])
def test_bytes_may_come_one_by_one(transcript):
    assert replay(bytewise(transcript)) == replay([transcript])


@given(transcript=st.sampled_from([ONE, TWO]), places=st.lists(st.integers(0, 1 << 20)))
def test_bytes_may_come_in_any_pieces(transcript, places):
    assert replay(cut(transcript, places)) == replay([transcript])


@given(places=st.lists(st.integers(0, 1 << 20)))
def test_the_programs_of_one_rank_may_follow_in_any_pieces(places):
    """One that begins drops answers that the last one had not waited for."""
    requests, told = replay(cut(SEVERAL, places))
    assert requests == replay(bytewise(SEVERAL))[0]
    assert told.endswith(JOINED_1)


def test_a_rank_is_asked_for_only_when_a_client_says_it():
    asked = []

    def identify(rank):
        asked.append(rank)
        return identity(rank)

    Conversation(identify, 2).receive(b"cmd=ini")
    assert asked == []
