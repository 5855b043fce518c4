"""PMI: what a hostile client can do is end its own conversation, with a reason."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pct.wireup.pmi import conversation as pmi
from pct.wireup.pmi.conversation import OUTSTANDING_MAX, PmiError
from pct.wireup.pmi.version1 import LINE_MAX, SPAWN_MAX_BYTES
from pct.wireup.pmi.version2 import FRAME_MAX
from tests.support.pmi_client import FULLINIT, INIT_1, INIT_2, NAME, Node, frame, identity, joined

PIECE = 16 * 1024


def refusal(node: Node, *pieces: bytes) -> str:
    """Why the conversation ends; fails if it does not."""
    with pytest.raises(PmiError) as caught:
        for piece in pieces:
            node.say(piece)
    text = str(caught.value)
    assert len(text) < 400 and "\n" not in text
    return text


# -- lines -----------------------------------------------------------------


@pytest.mark.parametrize("start", [b"", b"cmd=", b"cmd=put kvsname=yod_7_cafe key=a value="])
@pytest.mark.parametrize("is_joined", [False, True])
def test_an_endless_line_ends_the_conversation(start: bytes, is_joined: bool) -> None:
    node = joined(1) if is_joined else Node()
    assert refusal(node, start, *[b"x" * PIECE] * 4) == f"a line of more than {LINE_MAX} bytes"


def test_a_long_line_is_refused_though_it_ends() -> None:
    line = b"cmd=get_maxes " + b"x=" + b"y" * LINE_MAX + b"\n"
    assert refusal(joined(1), line) == f"a line of more than {LINE_MAX} bytes"


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b"   ", "no command in b'   '"),
        (b"hello", "no command in b'hello'"),
        (b"kvsname=a cmd=get", "no command in b'kvsname=a cmd=get'"),
        (b"cmd", "no command in b'cmd'"),
        (b"cmd=", "unknown command b''"),
        (b"cmd=explode", "unknown command b'explode'"),
        (b"cmd=" + b"x" * 5000, "unknown command b'" + "x" * 80 + "'"),
        (b"cmd=put hello", "a word without a value: b'hello'"),
        (b"cmd=put hello kvsname=a", "a word without a value: b'hello'"),
        (b"cmd=get kvsname=a\0 key=b", "a zero byte in b'cmd=get kvsname=a\\x00 key=b\\n'"),
        (b"\xff\xfe\x80", "no command in b'\\xff\\xfe\\x80'"),
        (b"\r", "no command in b'\\r'"),
        (b"endcmd", "no command in b'endcmd'"),
        (b"nprocs=1", "no command in b'nprocs=1'"),
        (b"mcmd=explode", "expected mcmd=spawn, got b'mcmd=explode'"),
        (b"mcmd=spawn nprocs=1", "expected mcmd=spawn, got b'mcmd=spawn nprocs=1'"),
    ],
)
def test_nonsense_ends_the_conversation_and_says_why(line: bytes, text: str) -> None:
    assert refusal(joined(1), line + b"\n") == text


def test_empty_lines_are_nothing() -> None:
    node = joined(1)
    assert node.say(b"\n" * 100_000) == b""
    assert node.say(b"cmd=get_appnum\n") == b"cmd=appnum appnum=0\n"


# -- another's -------------------------------------------------------------


@pytest.mark.parametrize("rank", [0, 3, 5, 99, -1, 1 << 31])
def test_a_rank_cannot_be_another(rank: int) -> None:
    refusal(Node(2), b"cmd=initack pmiid=%d\n" % rank)
    node = Node(2)
    node.say(INIT_2)
    told = node.say(frame(b"cmd=fullinit;pmirank=%d;" % rank))
    assert b"rc=-1;errmsg=wrong_rank;" in told and not node.requests


@pytest.mark.parametrize("name", [b"yod_8_beef", b"", NAME + b"x", NAME[:-1], NAME.upper()])
def test_another_jobs_key_space_is_out_of_reach(name: bytes) -> None:
    node = joined(1)
    assert b"rc=-1" in node.say(b"cmd=put kvsname=%s key=a value=b\n" % name)
    assert b"rc=-1" in node.say(b"cmd=get kvsname=%s key=a\n" % name)
    assert b"rc=-1" in node.say(b"cmd=get kvsname=%s key=PMI_process_mapping\n" % name)
    assert node.requests == []


def test_another_jobs_key_space_is_out_of_reach_of_pmi_2() -> None:
    node = joined(2)
    assert b"found=FALSE" in node.say(frame(b"cmd=kvs-get;jobid=yod_8_beef;key=a;"))
    assert node.requests == []


# -- frames ----------------------------------------------------------------


@pytest.mark.parametrize(
    "header",
    [
        b"0     ",
        b"-1    ",
        b"+5    ",
        b"1 2   ",
        b"1.5   ",
        b"0x10  ",
        b"1_000 ",
        b"\t12   ",
        b"14\n   ",
        b"\xb2     ",
        b"      ",
        b"\0\0\0\0\0\0",
        b"999999",
        b"%-6d" % (FRAME_MAX + 1),
    ],
)
def test_a_length_that_is_none_ends_the_conversation(header: bytes) -> None:
    assert "frame" in refusal(joined(2), header + b"cmd=job-getid;")


@pytest.mark.parametrize(
    "body",
    [
        b";",
        b"=",
        b"cmd",
        b"cmd;",
        b"cmd=;",
        b"hello;",
        b"=x;",
        b";cmd=job-getid;",
        b"key=a;cmd=kvs-get;",
        b"cmd=job-getid;hello;",
        b"cmd=job-getid;;;",
        b"cmd=job-getid;=a;",
        b"cmd=job-getid;a\0=b;",
        b"cmd=" + b"x" * 100 + b";",
        b"cmd=job-getid;thrid=" + b"x" * 100 + b";",
        b"\xff" * 20,
    ],
)
def test_a_frame_of_nonsense_ends_the_conversation_or_is_refused(body: bytes) -> None:
    node = joined(2)
    try:
        told = node.say(frame(body))
    except PmiError as error:
        assert len(str(error)) < 400
    else:
        assert b"rc=-1;" in told
    assert node.requests == []


def test_nothing_is_heard_before_fullinit() -> None:
    node = Node()
    node.say(INIT_2)
    assert refusal(node, frame(b"cmd=kvs-fence;")) == "b'kvs-fence' before fullinit"


def test_a_line_in_place_of_a_frame_must_be_an_init() -> None:
    assert refusal(joined(2), b"cmd=get_maxes\n") == "b'cmd=get_maxes' before init"


def test_the_longest_frame_is_heard_and_no_longer_one() -> None:
    head = b"cmd=kvs-put;key=k;value="
    body = head + b"v" * (FRAME_MAX - len(head) - 1) + b";"
    assert b"value_too_long" in joined(2).say(frame(body))
    assert f"1 to {FRAME_MAX}" in refusal(joined(2), frame(body + b"x"))


# -- spawns ----------------------------------------------------------------


@pytest.mark.parametrize(
    "lines",
    [
        b"nprocs=x\nexecname=a",
        b"execname=a",
        b"nprocs=1\nexecname=a\ntotspawns=0",
        b"nprocs=1\nexecname=a\ntotspawns=-1",
        b"nprocs=1\nexecname=a\ntotspawns=1000000",
        b"nprocs=1\nexecname=a\ntotspawns=2\nspawnssofar=2",
        b"nprocs=1\nexecname=a\ntotspawns=x",
        b"nprocs=1\nexecname=a\nargcnt=1",
        b"nprocs=1\nexecname=a\nargcnt=-1",
        b"nprocs=1\nexecname=a\nargcnt=1000000000",
        b"nprocs=1\nexecname=a\narg1=x",
        b"nprocs=1\nexecname=a\nargcnt=2\narg1=x\narg3=y",
        b"nprocs=1\nexecname=a\nargcnt=2\narg1=x\narg1=y",
        b"nprocs=1\nexecname=a\nargcnt=1\nargx=y",
        b"nprocs=1\nexecname=a\ninfo_num=1\ninfo_key_0=host",
        b"nprocs=1\nexecname=a\ninfo_num=2000000",
        b"nprocs=1\nexecname=a\npreput_num=1\npreput_key_0=a",
        b"nprocs=1\nexecname=a\npreput_num=99999999999999999",
        b"nprocs=1\nmcmd=spawn",
        b"nprocs=1\ncmd=get_maxes",
        b"=x",
        b"hello",
    ],
)
def test_a_spawn_that_contradicts_itself_ends_the_conversation(lines: bytes) -> None:
    assert "spawn" in refusal(joined(1), b"mcmd=spawn\n" + lines + b"\nendcmd\n")


def test_blocks_of_one_spawn_must_agree() -> None:
    block = b"mcmd=spawn\nnprocs=1\nexecname=a\ntotspawns=%d\nspawnssofar=%d\nendcmd\n"
    assert "totspawns" in refusal(joined(1), block % (3, 1), block % (2, 2))
    assert "spawnssofar" in refusal(joined(1), block % (3, 1), block % (3, 3))
    assert "expected mcmd=spawn" in refusal(joined(1), block % (2, 1), b"cmd=get_maxes\n")


@pytest.mark.parametrize("line", [b"arg1=" + b"x" * 4000, b"a=b", b"info_key_0=" + b"x" * 1000])
def test_an_endless_spawn_ends_the_conversation(line: bytes) -> None:
    pieces = [b"mcmd=spawn\n", *[(line + b"\n") * 32] * (SPAWN_MAX_BYTES // (32 * 3))]
    text = refusal(joined(1), *pieces)
    assert text == f"a spawn of more than {SPAWN_MAX_BYTES} bytes"


@pytest.mark.parametrize(
    "words",
    [
        b"",
        b"ncmds=0;",
        b"ncmds=1;",
        b"ncmds=2;subcmd=a;maxprocs=1;",
        b"ncmds=x;subcmd=a;maxprocs=1;",
        b"ncmds=1;subcmd=a;",
        b"ncmds=1;subcmd=a;maxprocs=x;",
        b"ncmds=1;subcmd=a;maxprocs=1;argc=1;",
        b"ncmds=1;subcmd=a;maxprocs=1;argv0=x;",
        b"ncmds=1;subcmd=a;maxprocs=1;argc=99999999;",
        b"ncmds=1;subcmd=a;maxprocs=1;infokeycount=1;infokey0=a;",
        b"ncmds=1;preputcount=1;ppkey0=a;subcmd=a;maxprocs=1;",
        b"ncmds=1;preputcount=-1;subcmd=a;maxprocs=1;",
        b"ncmds=300;" + b"subcmd=a;maxprocs=1;" * 300,
    ],
)
def test_a_spawn_of_pmi_2_that_contradicts_itself_ends_the_conversation(words: bytes) -> None:
    assert "spawn" in refusal(joined(2), frame(b"cmd=spawn;" + words))


# -- whatever comes --------------------------------------------------------


def listen(rank: int | None, pieces: list[bytes]) -> bytes:
    """What a client that says this is told until its conversation ends."""
    node = Node(rank)
    told = b""
    for piece in pieces:
        try:
            told += node.say(piece)
        except PmiError as error:
            assert "\n" not in str(error) and len(str(error)) < 400
            return told + node.conversation.take()
    return told


@given(rank=st.sampled_from([None, 2]), pieces=st.lists(st.binary(max_size=200), max_size=5))
def test_random_bytes_do_no_worse_than_end_the_conversation(
    rank: int | None, pieces: list[bytes]
) -> None:
    listen(rank, pieces)


WORDS_1 = (
    b"cmd=put cmd=get cmd=init cmd=initack cmd=finalize cmd=barrier_in cmd=publish_name "
    b"cmd=lookup_name cmd=abort mcmd=spawn endcmd kvsname=yod_7_cafe key=\r key=a value= = == "
    b"pmi_version=1 pmi_version=2 pmiid=2 exitcode=x service= service=a port=b \xff nprocs=1 "
    b"execname=a totspawns=2 argcnt=1 arg1=x spawnssofar=2 \n \n \n"
).split(b" ")
WORDS_2 = (
    b"cmd=kvs-put cmd=kvs-get cmd=kvs-fence cmd=finalize cmd=fullinit cmd=spawn cmd=name-publish "
    b"cmd=info-getnodeattr cmd=job-connect cmd=abort key=a key= value=; value=;; jobid=yod_7_cafe "
    b"thrid=1 wait=TRUE pmirank=2 ncmds=1 subcmd=a maxprocs=1 argc=1 argv0=x = \xff a"
).split(b" ")


@given(words=st.lists(st.tuples(st.sampled_from(WORDS_1), st.sampled_from(b" \n")), max_size=40))
def test_random_words_are_answered_by_whole_lines(words: list[tuple[bytes, int]]) -> None:
    said = b"".join(word + bytes([end]) for word, end in words)
    told = listen(2, [INIT_1, said, b"\n"])
    if b"version=2" not in said:
        *lines, rest = told.split(b"\n")
        assert all(line.startswith(b"cmd=") for line in lines)
        assert rest == b""


@given(bodies=st.lists(st.lists(st.sampled_from(WORDS_2), min_size=1, max_size=8), max_size=8))
def test_random_words_are_answered_by_whole_frames(bodies: list[list[bytes]]) -> None:
    told = listen(2, [INIT_2, FULLINIT, *(frame(b";".join(words) + b";") for words in bodies)])
    told = told.partition(b"\n")[2]
    while told:
        length = int(told[:6])
        body, told = told[6 : 6 + length], told[6 + length :]
        assert body.startswith(b"cmd=") and body.endswith(b";") and len(body) == length


@pytest.mark.parametrize(
    "said",
    [
        b"x" * 100,
        b"cmd=get_maxes\n",
        b"cmd=get kvsname=yod_7_cafe key=" + b"k" * 64 + b"\n",
        b"mcmd=spawn\narg1=x\n",
        INIT_1,
        b"cmd=initack pmiid=2\n",
        INIT_1 + b"cmd=barrier_in\ncmd=finalize\n",
        INIT_2 + FULLINIT,
        INIT_2 + FULLINIT + frame(b"cmd=info-getnodeattr;thrid=1;key=k;wait=TRUE;"),
        INIT_2 + FULLINIT + b"65536 " + b"x" * 100,
    ],
    ids=range(10),
)
def test_what_a_client_says_for_ever_takes_bounded_memory(said: bytes) -> None:
    """Nobody answers; answers are taken after every piece, as a driver does."""
    conversation = pmi.Conversation(identity, 2)
    conversation.receive(INIT_1)
    data = said * min(PIECE // len(said) + 1, 200)
    tracemalloc.start()
    try:
        for _ in range(40):
            conversation.receive(data)
            conversation.take()
    except PmiError:
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 16 * PIECE + OUTSTANDING_MAX * 4096
