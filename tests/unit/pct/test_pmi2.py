"""PMI-2, with recorded conversations of Slurm's libpmi2, and of Intel MPI above it."""

import pytest

from native.wire.pmi import KeyValue, SpawnCommand
from pct.wireup.pmi import conversation as pmi
from pct.wireup.pmi.requests import KEYLEN_MAX, VALLEN_MAX
from pct.wireup.pmi.version2 import build, parse
from tests.support.pmi_client import FULLINIT, INIT_2, JOINED_2, Node, frame, joined

# -- a whole conversation, as recorded; the key space's name is ours -----------------

LIBPMI2 = [
    (INIT_2, JOINED_2),
    (
        b"38    cmd=fullinit;pmirank=2;threaded=FALSE;",
        b"113   cmd=fullinit-response;pmi-version=2;pmi-subversion=0;rank=2;size=4;appnum=0;"
        b"debugged=FALSE;pmiverbose=FALSE;rc=0;",
    ),
    (b"14    cmd=job-getid;", b"45    cmd=job-getid-response;jobid=yod_7_cafe;rc=0;"),
    (
        b"44    cmd=info-getjobattr;key=PMI_process_mapping;",
        b"78    cmd=info-getjobattr-response;found=TRUE;flag=TRUE;value=(vector,(0,2,2));rc=0;",
    ),
    (
        b"37    cmd=info-getjobattr;key=universeSize;",
        b"57    cmd=info-getjobattr-response;found=FALSE;flag=FALSE;rc=0;",
    ),
    (
        b"36    cmd=info-getjobattr;key=hasNameServ;",
        b"57    cmd=info-getjobattr-response;found=FALSE;flag=FALSE;rc=0;",
    ),
    (
        b"43    cmd=kvs-put;key=key0;value=a;;b;;;;c d=e;;;",
        b"26    cmd=kvs-put-response;rc=0;",
    ),
    (b"14    cmd=kvs-fence;", b"28    cmd=kvs-fence-response;rc=0;"),
    (
        b"37    cmd=kvs-get;jobid=;srcid=-1;key=key0;",
        b"69    cmd=kvs-get-response;found=TRUE;flag=TRUE;value=a;;b;;;;c d=e;;;rc=0;",
    ),
    (
        b"40    cmd=kvs-get;jobid=;srcid=-1;key=nothere;",
        b"49    cmd=kvs-get-response;found=FALSE;flag=FALSE;rc=0;",
    ),
    (
        b"46    cmd=info-putnodeattr;key=shm;value=/dev/shm/x;",
        b"35    cmd=info-putnodeattr-response;rc=0;",
    ),
    (
        b"39    cmd=info-getnodeattr;key=shm;wait=TRUE;",
        b"73    cmd=info-getnodeattr-response;found=TRUE;flag=TRUE;value=/dev/shm/x;rc=0;",
    ),
    (
        b"39    cmd=info-getnodeattr;key=no;wait=FALSE;",
        b"58    cmd=info-getnodeattr-response;found=FALSE;flag=FALSE;rc=0;",
    ),
    (
        b"67    cmd=name-publish;name=my service;port=tag=1;;port=2;infokeycount=0;",
        b"31    cmd=name-publish-response;rc=0;",
    ),
    (
        b"47    cmd=name-lookup;name=my service;infokeycount=0;",
        b"69    cmd=name-lookup-response;value=tag=1;;port=2;port=tag=1;;port=2;rc=0;",
    ),
    (
        b"50    cmd=name-unpublish;name=my service;infokeycount=0;",
        b"33    cmd=name-unpublish-response;rc=0;",
    ),
    (
        b"41    cmd=name-lookup;name=none;infokeycount=0;",
        b"56    cmd=name-lookup-response;rc=-1;errmsg=service_not_found;",
    ),
    (
        b"44    cmd=name-unpublish;name=none;infokeycount=0;",
        b"59    cmd=name-unpublish-response;rc=-1;errmsg=service not found;",
    ),
    (
        b"195   cmd=spawn;ncmds=2;preputcount=1;ppkey0=PARENT;ppval0=x;;y;subcmd=./a;maxprocs=1;"
        b"argc=2;argv0=x y;argv1=a;;b;infokeycount=1;infokey0=wdir;infoval0=/tmp;subcmd=./b;"
        b"maxprocs=2;argc=0;infokeycount=0;",
        b"49    cmd=spawn-response;jobid=yod_7_beef;nerrs=0;rc=0;",
    ),
    (b"13    cmd=finalize;", b"27    cmd=finalize-response;rc=0;"),
]


def body(data):
    """One frame without its header, which must be right."""
    assert int(data[:6]) == len(data) - 6
    return data[6:]


def test_the_conversation_of_slurms_libpmi2():
    node = Node()
    for said, told in LIBPMI2:
        assert node.say(said) == told
    assert [type(request) for request in node.requests] == [
        pmi.Joined,
        pmi.Get,
        pmi.Get,
        pmi.Put,
        pmi.Fence,
        pmi.Get,
        pmi.Get,
        pmi.PutNode,
        pmi.GetNode,
        pmi.GetNode,
        pmi.Publish,
        pmi.Lookup,
        pmi.Unpublish,
        pmi.Lookup,
        pmi.Unpublish,
        pmi.SpawnMultiple,
        pmi.Left,
    ]
    assert node.requests[3] == pmi.Put(key=b"key0", value=b"a;b;;c d=e;")
    assert node.requests[8] == pmi.GetNode(key=b"shm", is_waiting=True)
    assert node.requests[15] == pmi.SpawnMultiple(
        commands=(
            SpawnCommand(b"./a", (b"x y", b"a;b"), 1, b"/tmp"),
            SpawnCommand(b"./b", (), 2),
        ),
        pairs=(KeyValue(b"PARENT", b"x;y"),),
    )


def test_mpichs_frames_have_their_length_on_the_right():
    node = Node()
    node.say(INIT_2)
    assert b"rc=0;" in node.say(b"    23cmd=fullinit;pmirank=2;")


# -- who it is -----------------------------------------------------------------


def fullinit(rank, words):
    """What a connection of `rank` is answered, and its rank then."""
    node = Node(rank)
    node.say(INIT_2)
    told = body(node.say(frame(b"cmd=fullinit;" + words)))
    return told, node.conversation.rank


WRONG = b"cmd=fullinit-response;rc=-1;errmsg=wrong_rank;"


@pytest.mark.parametrize("words", [b"pmirank=2;threaded=TRUE;", b"srcid=2;threaded=FALSE;"])
def test_over_pmi_port_the_client_says_its_rank(words):
    told, rank = fullinit(None, words)
    assert b"rank=2;size=4;" in told and rank == 2


@pytest.mark.parametrize("rank", [5, None])
def test_a_spawned_client_may_say_its_rank_of_the_job(rank):
    told, rank = fullinit(rank, b"pmirank=5;")
    assert b"rank=1;size=4;appnum=1;spawner-jobid=unknown;" in told and rank == 5


def test_a_spawned_client_whose_rank_is_known_may_say_its_rank_of_the_world():
    told, _ = fullinit(5, b"pmirank=1;")
    assert b"rank=1;size=4;" in told


@pytest.mark.parametrize("words", [b"pmirank=3;", b"pmirank=-1;", b"pmirank=x;", b"", b"size=2;"])
def test_another_rank_than_the_connections_is_refused(words):
    assert fullinit(2, words) == (WRONG, 2)


@pytest.mark.parametrize("words", [b"pmirank=99;", b"pmirank=-1;", b""])
def test_a_rank_that_is_not_here_is_refused(words):
    assert fullinit(None, words) == (WRONG, None)


# -- threads ---------------------------------------------------------------


def test_what_a_request_is_called_is_repeated_in_its_answer():
    told = joined(2).say(frame(b"cmd=job-getid;thrid=0x7f;"))
    assert body(told) == b"cmd=job-getid-response;thrid=0x7f;jobid=yod_7_cafe;rc=0;"


def test_named_requests_are_answered_as_soon_as_they_can_be():
    conversation = joined(2).conversation
    (waiting,) = conversation.receive(frame(b"cmd=info-getnodeattr;thrid=1;key=k;wait=TRUE;"))
    (fence,) = conversation.receive(frame(b"cmd=kvs-fence;thrid=2;"))
    conversation.receive(frame(b"cmd=job-getid;thrid=3;"))
    assert body(conversation.take()).startswith(b"cmd=job-getid-response;thrid=3;")
    conversation.fenced(fence)
    assert body(conversation.take()) == b"cmd=kvs-fence-response;thrid=2;rc=0;"
    conversation.found(waiting, b"v")
    assert body(conversation.take()).startswith(b"cmd=info-getnodeattr-response;thrid=1;found=TRUE")


# -- what is refused -------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (b"cmd=kvs-put;value=v;", b"cmd=kvs-put-response;rc=-1;errmsg=invalid_key;"),
        (b"cmd=kvs-put;key=k;", b"cmd=kvs-put-response;rc=-1;errmsg=no_value;"),
        (
            b"cmd=kvs-put;key=k;value=%s;" % (b"v" * (VALLEN_MAX + 1)),
            b"cmd=kvs-put-response;rc=-1;errmsg=value_too_long;",
        ),
        (
            b"cmd=info-putnodeattr;key=%s;value=v;" % (b"k" * (KEYLEN_MAX + 1)),
            b"cmd=info-putnodeattr-response;rc=-1;errmsg=invalid_key;",
        ),
        (b"cmd=kvs-get;", b"cmd=kvs-get-response;rc=-1;errmsg=invalid_key;"),
        (b"cmd=info-getnodeattr;", b"cmd=info-getnodeattr-response;rc=-1;errmsg=invalid_key;"),
        (
            b"cmd=kvs-get;jobid=yod_8_beef;key=k;",
            b"cmd=kvs-get-response;found=FALSE;flag=FALSE;rc=0;",
        ),
        (b"cmd=name-publish;port=p;", b"cmd=name-publish-response;rc=-1;errmsg=invalid_service;"),
        (b"cmd=name-publish;name=n;", b"cmd=name-publish-response;rc=-1;errmsg=invalid_port;"),
        (b"cmd=job-connect;jobid=x;", b"cmd=job-connect-response;rc=-1;errmsg=not_supported;"),
        (b"cmd=explode;thrid=7;", b"cmd=explode-response;thrid=7;rc=-1;errmsg=not_supported;"),
        (
            b"cmd=spawn;ncmds=1;subcmd=a;maxprocs=0;",
            b"cmd=spawn-response;rc=-1;errmsg=invalid_number_of_processes;",
        ),
        (
            b"cmd=spawn;ncmds=1;preputcount=1;ppkey0=;ppval0=v;subcmd=a;maxprocs=1;",
            b"cmd=spawn-response;rc=-1;errmsg=invalid_key;",
        ),
    ],
)
def test_what_cannot_be_is_refused_and_the_client_goes_on(said, told):
    node = joined(2)
    assert body(node.say(frame(said))) == told
    assert node.requests == []
    assert b"rc=0;" in node.say(frame(b"cmd=job-getid;"))


@pytest.mark.parametrize(
    ("words", "exit_code", "text"),
    [
        (b"isworld=TRUE;msg=because;; of this;", 1, "because; of this"),
        (b"exitcode=7;message=bad;", 7, "bad"),
        (b"", 1, ""),
    ],
)
def test_an_abort_has_no_answer(words, exit_code, text):
    node = joined(2)
    assert node.say(frame(b"cmd=abort;" + words)) == b""
    assert node.requests == [pmi.Abort(exit_code=exit_code, text=text)]


# -- words -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"cmd=x;", [(b"cmd", b"x")]),
        (b"cmd=x", [(b"cmd", b"x")]),
        (b"cmd=x;a=;b=c;", [(b"cmd", b"x"), (b"a", b""), (b"b", b"c")]),
        (b"cmd=x;a=b=c;", [(b"cmd", b"x"), (b"a", b"b=c")]),
        (b"cmd=x;a=;;;", [(b"cmd", b"x"), (b"a", b";")]),
        (b"cmd=x;a=;;;;b=c;", [(b"cmd", b"x"), (b"a", b";;b=c")]),
        (b"cmd=x;a=b;;", [(b"cmd", b"x"), (b"a", b"b;")]),
    ],
)
def test_a_semicolon_in_a_value_is_doubled(data, words):
    assert parse(data) == words


def test_what_is_built_can_be_parsed():
    words = [(b"a", b"x;;y;"), (b"b", b""), (b"c", None), (b"d", b";")]
    assert parse(body(build(b"x", words))) == [
        (b"cmd", b"x"),
        (b"a", b"x;;y;"),
        (b"b", b""),
        (b"d", b";"),
    ]


def test_a_client_may_initialise_again_after_it_has_finalised():
    node = joined(2)
    node.say(frame(b"cmd=finalize;"))
    assert node.say(INIT_2) == JOINED_2
    assert b"rc=0;" in node.say(FULLINIT)
