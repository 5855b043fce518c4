"""PMI-1 as MPICH's and Intel's clients speak it, and as nobody should."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pct.pmi1 import KEYLEN_MAX, VALLEN_MAX, Client, PmiError, Request, parse, process_mapping

NAME = b"yod_7_cafe"


def client():
    return Client(rank=2, size=4, app_number=1, kvsname=NAME)


def answer(line):
    """What the client is told, and what else is to be done."""
    reply, request, _ = client().handle(line)
    return reply, request


# -- what the libraries say ------------------------------------------------


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        (
            b"cmd=init pmi_version=1 pmi_subversion=1",
            b"cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n",
        ),
        (b"cmd=get_maxes", b"cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=4096\n"),
        (b"cmd=get_appnum", b"cmd=appnum appnum=1\n"),
        (b"cmd=get_universe_size", b"cmd=universe_size size=4\n"),
        (b"cmd=get_my_kvsname", b"cmd=my_kvsname kvsname=yod_7_cafe\n"),
    ],
)
def test_what_a_node_knows_is_answered_at_once(line, reply):
    assert answer(line) == (reply, None)
    assert answer(line + b" ") == (reply, None)


@pytest.mark.parametrize(
    ("line", "reply", "request_"),
    [
        (
            b"cmd=put kvsname=yod_7_cafe key=bc-0 value=tcp://10.0.0.5:1 x=y",
            b"cmd=put_result rc=0 msg=success\n",
            Request.PUT,
        ),
        (b"cmd=get kvsname=yod_7_cafe key=bc-0", b"", Request.GET),
        (b"cmd=barrier_in", b"", Request.BARRIER),
        (b"cmd=finalize", b"cmd=finalize_ack rc=0\n", Request.FINALIZE),
        (b"cmd=abort exitcode=7 message=abort", b"", Request.ABORT),
        (b"cmd=abort exitcode=7", b"", Request.ABORT),
    ],
)
def test_what_concerns_others_is_handed_on(line, reply, request_):
    assert answer(line) == (reply, request_)


def test_a_value_runs_to_the_end_of_the_line():
    words = parse(b"cmd=put  kvsname=k key=a value= b =c value=d ")
    assert words == {b"cmd": b"put", b"kvsname": b"k", b"key": b"a", b"value": b" b =c value=d"}


def test_answers_to_a_get():
    assert client().found(b"v w=x") == b"cmd=get_result rc=0 msg=success value=v w=x\n"
    absent = b"cmd=get_result rc=-1 msg=key_bc-9_not_found value=unknown\n"
    assert client().absent(b"bc-9") == absent


def test_a_second_program_of_the_same_rank_may_say_init_again():
    one = client()
    assert not one.has_joined
    init = b"cmd=init pmi_version=1 pmi_subversion=1"
    first = one.handle(init)[0]
    one.handle(b"cmd=finalize")
    assert one.handle(init)[0] == first
    assert one.has_joined


def test_another_version_is_declined():
    reply, _ = answer(b"cmd=init pmi_version=2 pmi_subversion=0")
    assert reply == b"cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1\n"


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        (b"cmd=publish_name service=a port=b", b"cmd=publish_result rc=-1 msg=not_supported\n"),
        (b"cmd=unpublish_name service=a", b"cmd=unpublish_result rc=-1 msg=not_supported\n"),
        (b"cmd=lookup_name service=a", b"cmd=lookup_result rc=-1 msg=not_supported\n"),
        (b"mcmd=spawn nprocs=1", b"cmd=spawn_result rc=-1\n"),
    ],
)
def test_what_is_not_offered_is_refused_cleanly(line, reply):
    assert answer(line) == (reply, None)


# -- what nobody should say ------------------------------------------------


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (b"cmd=put kvsname=yod_8_beef key=a value=b", b"unknown_kvsname"),
        (b"cmd=put key=a value=b", b"unknown_kvsname"),
        (b"cmd=put kvsname=yod_7_cafe value=b", b"invalid_key"),
        (b"cmd=put kvsname=yod_7_cafe key= value=b", b"invalid_key"),
        (
            b"cmd=put kvsname=yod_7_cafe value=b key=%s" % (b"k" * (KEYLEN_MAX + 1)),
            b"invalid_key",
        ),
        (
            b"cmd=put kvsname=yod_7_cafe key=%s value=b" % (b"k" * (KEYLEN_MAX + 1)),
            b"invalid_key",
        ),
        (
            b"cmd=put kvsname=yod_7_cafe key=a value=%s" % (b"v" * (VALLEN_MAX + 1)),
            b"value_too_long",
        ),
    ],
    ids=["other job", "no space", "no key", "empty key", "after value", "long key", "long value"],
)
def test_a_put_that_breaks_a_limit_is_refused_and_puts_nothing(line, fault):
    assert answer(line) == (b"cmd=put_result rc=-1 msg=" + fault + b"\n", None)


def test_keys_and_values_at_their_limits_are_taken():
    line = b"cmd=put kvsname=%s key=%s value=%s" % (NAME, b"k" * KEYLEN_MAX, b"v" * VALLEN_MAX)
    assert answer(line)[1] is Request.PUT


@pytest.mark.parametrize(
    "line", [b"cmd=get kvsname=yod_8_beef key=a", b"cmd=get kvsname=yod_7_cafe", b"cmd=get key=a"]
)
def test_another_jobs_key_space_holds_nothing(line):
    reply, request = answer(line)
    assert reply.startswith(b"cmd=get_result rc=-1 msg=key_") and request is None


def test_a_long_key_does_not_come_back_at_length():
    reply, _ = answer(b"cmd=get kvsname=yod_7_cafe key=" + b"k" * 10_000)
    assert len(reply) < 200


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b"", "no command in b''"),
        (b"   ", "no command in b'   '"),
        (b"hello", "a word without a value: b'hello'"),
        (b"cmd=put hello", "a word without a value: b'hello'"),
        (b"kvsname=a key=b", "no command in b'kvsname=a key=b'"),
        (b"cmd=explode", "unknown command b'explode'"),
        (b"cmd=", "unknown command b''"),
        (b"cmd=" + b"x" * 5000, "unknown command b'" + "x" * 80 + "'"),
        (b"y" * 5000, "a word without a value: b'" + "y" * 80 + "'"),
    ],
)
def test_nonsense_ends_the_conversation_and_says_why(line, text):
    with pytest.raises(PmiError) as caught:
        client().handle(line)
    assert str(caught.value) == text


@given(line=st.binary(max_size=200))
def test_random_lines_do_no_worse_than_end_the_conversation(line):
    try:
        reply, _, _ = client().handle(line)
    except PmiError:
        return
    assert reply == b"" or (reply.startswith(b"cmd=") and reply.endswith(b"\n"))


_word = st.sampled_from(
    b"cmd=put cmd=get cmd=init mcmd=spawn kvsname=yod_7_cafe key=\r key=a value= = == "
    b"pmi_version=1 exitcode=x \x00=\xff".split(b" ")
)


@given(words=st.lists(_word, max_size=8))
def test_an_answer_is_always_one_line(words):
    try:
        reply, _, _ = client().handle(b" ".join(words))
    except PmiError:
        return
    assert reply.count(b"\n") == (1 if reply else 0)


# -- where ranks are -------------------------------------------------------


@pytest.mark.parametrize(
    ("places", "mapping"),
    [
        ([0], b"(vector,(0,1,1))"),
        ([0, 0, 1, 1], b"(vector,(0,2,2))"),
        ([0, 1, 0, 1], b"(vector,(0,2,1),(0,2,1))"),
        ([0, 0, 0, 1], b"(vector,(0,1,3),(1,1,1))"),
        ([0, 1, 1, 2, 2, 3], b"(vector,(0,1,1),(1,2,2),(3,1,1))"),
        ([2, 1, 0], b"(vector,(2,1,1),(1,1,1),(0,1,1))"),
    ],
    ids=["one", "block", "cyclic", "irregular", "mixed", "backwards"],
)
def test_the_process_mapping_of_ranks_on_places(places, mapping):
    assert process_mapping(places) == mapping


@given(places=st.lists(st.integers(0, 5), min_size=1, max_size=60))
def test_the_process_mapping_says_where_every_rank_is(places):
    body = process_mapping(places).decode()[len("(vector,") : -1]
    blocks = [tuple(map(int, block.split(","))) for block in body.strip("()").split("),(")]
    spread = [
        first + index
        for first, count, each in blocks
        for index in range(count)
        for _ in range(each)
    ]
    assert spread == places
