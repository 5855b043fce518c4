"""PMI-1, as MPICH's and Intel's clients were recorded to speak it."""

import pytest

from native.wire.pmi import KeyValue, SpawnCommand
from pct.wireup.pmi import conversation as pmi
from pct.wireup.pmi.requests import KEYLEN_MAX, SERVICE_MAX, VALLEN_MAX
from pct.wireup.pmi.version1 import parse
from tests.support.pmi_client import INIT_1, JOINED_1, Node, joined

# -- whole conversations, as recorded; the key space's name is ours ------------------

MPICH_4_OVER_PORT = [
    (
        b"cmd=initack pmiid=2\n",
        b"cmd=initack\ncmd=set size=4\ncmd=set rank=2\ncmd=set debug=0\n",
    ),
    (INIT_1, JOINED_1),
    (b"cmd=get_maxes\n", b"cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=4096\n"),
    (b"cmd=get_appnum\n", b"cmd=appnum appnum=0\n"),
    (b"cmd=get_my_kvsname\n", b"cmd=my_kvsname kvsname=yod_7_cafe\n"),
    (
        b"cmd=get kvsname=yod_7_cafe key=PMI_process_mapping\n",
        b"cmd=get_result rc=0 msg=success value=(vector,(0,2,2))\n",
    ),
    (b"cmd=barrier_in\n", b"cmd=barrier_out rc=0\n"),
    (
        b"cmd=put kvsname=yod_7_cafe key=-bcast-1-0 value=2F6465762F73686D2F6D7069\n",
        b"cmd=put_result rc=0 msg=success\n",
    ),
    (b"cmd=barrier_in\n", b"cmd=barrier_out rc=0\n"),
    (
        b"cmd=get kvsname=yod_7_cafe key=-bcast-1-0\n",
        b"cmd=get_result rc=0 msg=success value=2F6465762F73686D2F6D7069\n",
    ),
    (
        b"cmd=publish_name service=my service port=tag#0$connentry#2017[2]63$\n",
        b"cmd=publish_result info=ok rc=0 msg=success\n",
    ),
    (
        b"cmd=lookup_name service=my service\n",
        b"cmd=lookup_result port=tag#0$connentry#2017[2]63$ info=ok rc=0 msg=success\n",
    ),
    (
        b"cmd=unpublish_name service=my service\n",
        b"cmd=unpublish_result info=ok rc=0 msg=success\n",
    ),
    (b"cmd=lookup_name service=none\n", b"cmd=lookup_result rc=-1 msg=service_not_found\n"),
    (b"cmd=unpublish_name service=none\n", b"cmd=unpublish_result rc=-1 msg=service_not_found\n"),
    (b"cmd=finalize\n", b"cmd=finalize_ack rc=0\n"),
]
MPICH_5_SPAWN = (
    b"mcmd=spawn\nnprocs=1\nexecname=/venv/bin/python\ntotspawns=2\nspawnssofar=1\nargcnt=3\n"
    b"arg1=/tmp/spawn.py\narg2=one arg\narg3=a=b; c\npreput_num=1\n"
    b"preput_key_0=PARENT_ROOT_PORT_NAME\npreput_val_0=tag#0$connentry#20DE[2]63$\n"
    b"info_num=2\ninfo_key_0=wdir\ninfo_val_0=/tmp\ninfo_key_1=path\ninfo_val_1=/opt:/bin\n"
    b"endcmd\n"
    b"mcmd=spawn\nnprocs=2\nexecname=./worker\ntotspawns=2\nspawnssofar=2\nargcnt=1\n"
    b"arg1=/tmp/spawn.py\ninfo_num=0\nendcmd\n"
)


def test_the_conversation_of_mpich_4_over_pmi_port():
    node = Node(rank=None)
    for said, told in MPICH_4_OVER_PORT:
        assert node.say(said) == told
    assert [type(request) for request in node.requests] == [
        pmi.Joined,
        pmi.Fence,
        pmi.Put,
        pmi.Fence,
        pmi.Get,
        pmi.Publish,
        pmi.Lookup,
        pmi.Unpublish,
        pmi.Lookup,
        pmi.Unpublish,
        pmi.Left,
    ]
    assert node.conversation.rank == 2 and node.conversation.has_joined


def test_the_spawn_of_two_programs_as_mpich_5_words_it():
    node = joined(1)
    assert node.say(MPICH_5_SPAWN) == b"cmd=spawn_result rc=0\n"
    assert node.requests == [
        pmi.SpawnMultiple(
            commands=(
                SpawnCommand(
                    b"/venv/bin/python", (b"/tmp/spawn.py", b"one arg", b"a=b; c"), 1, b"/tmp"
                ),
                SpawnCommand(b"./worker", (b"/tmp/spawn.py",), 2),
            ),
            pairs=(KeyValue(b"PARENT_ROOT_PORT_NAME", b"tag#0$connentry#20DE[2]63$"),),
        )
    ]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"cmd=get_universe_size", b"cmd=universe_size size=-1\n"),
        (b"cmd=get_maxes ", b"cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=4096\n"),
        (b"  cmd=get_appnum", b"cmd=appnum appnum=0\n"),
        (
            b"cmd=get kvsname=yod_7_cafe key=PMI_hwloc_xmlfile",
            b"cmd=get_result rc=-1 msg=key_PMI_hwloc_xmlfile_not_found value=unknown\n",
        ),
        (b"cmd=barrier_in group=WORLD", b"cmd=barrier_out rc=0\n"),
        (b"cmd=barrier_in group=0,1", b"cmd=barrier_out rc=-1 msg=no_groups\n"),
        (b"cmd=getbyidx kvsname=yod_7_cafe idx=0", b"cmd=getbyidx_results rc=-1 msg=obsolete\n"),
        (b"cmd=create_kvs", b"cmd=newkvs rc=-1 msg=obsolete\n"),
        (b"cmd=destroy_kvs kvsname=x", b"cmd=kvs_destroyed rc=-1 msg=obsolete\n"),
        (b"cmd=abort exitcode=7", b""),
    ],
)
def test_what_one_line_is_answered(line, told):
    assert joined(1).say(line + b"\n") == told


def test_a_value_runs_to_the_end_of_the_line():
    words = parse(b"cmd=put  kvsname=k key=a value= b =c value=d ")
    assert words == {b"cmd": b"put", b"kvsname": b"k", b"key": b"a", b"value": b" b =c value=d "}


def test_a_world_without_a_mapping_has_no_such_key():
    def no_mapping(rank):
        return pmi.Identity(rank, 4, 0, b"k", False, b"")

    conversation = pmi.Conversation(no_mapping, 0)
    requests = conversation.receive(INIT_1 + b"cmd=get kvsname=k key=PMI_process_mapping\n")
    assert requests == [pmi.Joined()]
    answer = conversation.take().splitlines()[1]
    assert answer == b"cmd=get_result rc=-1 msg=key_PMI_process_mapping_not_found value=unknown"


@pytest.mark.parametrize(
    ("line", "exit_code", "text"),
    [
        (b"cmd=abort exitcode=7", 7, ""),
        (b"cmd=abort exitcode=7 message=abort", 7, "abort"),
        (b"cmd=abort exitcode=-1 message=it is = bad", -1, "it is = bad"),
        (b"cmd=abort exitcode=874601231", 874601231, ""),
        (b"cmd=abort", 1, ""),
        (b"cmd=abort exitcode=99999999999", 1, ""),
        (b"cmd=abort exitcode=x", 1, ""),
        (b"cmd=abort exitcode=3 message=\xff", 3, "\\xff"),
    ],
)
def test_an_abort_carries_its_code_and_its_message(line, exit_code, text):
    node = joined(1)
    node.say(line + b"\n")
    assert node.requests == [pmi.Abort(exit_code=exit_code, text=text)]


def test_nothing_is_heard_after_an_abort():
    node = joined(1)
    assert node.say(b"cmd=abort exitcode=7\ncmd=get_appnum\nnonsense\n") == b""
    assert node.say(b"nonsense\n") == b""
    assert len(node.requests) == 1


def test_a_client_whose_init_fails_may_abort():
    node = Node()
    node.say(b"cmd=abort exitcode=-1\n")
    assert node.requests == [pmi.Abort(exit_code=-1, text="")]


def test_another_version_is_declined():
    told = Node().say(b"cmd=init pmi_version=3 pmi_subversion=0\n")
    assert told == b"cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1\n"


# -- values that are refused ------------------------------------------------


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (b"cmd=put kvsname=yod_8_beef key=a value=b", b"unknown_kvsname"),
        (b"cmd=put key=a value=b", b"unknown_kvsname"),
        (b"cmd=put kvsname=yod_7_cafe value=b", b"invalid_key"),
        (b"cmd=put kvsname=yod_7_cafe key= value=b", b"invalid_key"),
        (b"cmd=put kvsname=yod_7_cafe key=a", b"no_value"),
        (b"cmd=put kvsname=yod_7_cafe value=b key=a", b"invalid_key"),
        (
            b"cmd=put kvsname=yod_7_cafe key=%s value=b" % (b"k" * (KEYLEN_MAX + 1)),
            b"invalid_key",
        ),
        (
            b"cmd=put kvsname=yod_7_cafe key=a value=%s" % (b"v" * (VALLEN_MAX + 1)),
            b"value_too_long",
        ),
    ],
)
def test_a_put_that_breaks_a_limit_is_refused_and_puts_nothing(line, fault):
    node = joined(1)
    assert node.say(line + b"\n") == b"cmd=put_result rc=-1 msg=" + fault + b"\n"
    assert node.requests == []


def test_keys_and_values_at_their_limits_are_taken():
    node = joined(1)
    key, value = b"k" * KEYLEN_MAX, b"v" * VALLEN_MAX
    node.say(b"cmd=put kvsname=yod_7_cafe key=%s value=%s\n" % (key, value))
    assert node.requests == [pmi.Put(key=key, value=value)]


@pytest.mark.parametrize(
    "line", [b"cmd=get kvsname=yod_8_beef key=a", b"cmd=get kvsname=yod_7_cafe", b"cmd=get key=a"]
)
def test_another_jobs_key_space_holds_nothing(line):
    node = joined(1)
    assert node.say(line + b"\n").startswith(b"cmd=get_result rc=-1 msg=key_")
    assert node.requests == []


def test_a_long_key_does_not_come_back_at_length():
    told = joined(1).say(b"cmd=get kvsname=yod_7_cafe key=" + b"k" * 10_000 + b"\n")
    assert len(told) < 200


def test_a_value_that_no_line_can_hold_is_not_there():
    """A client of PMI-2 in the same world may have put it."""
    conversation = pmi.Conversation(lambda rank: pmi.Identity(rank, 1, 0, b"k", False, b""), 0)
    conversation.receive(INIT_1)
    conversation.take()
    (get,) = conversation.receive(b"cmd=get kvsname=k key=a\n")
    conversation.found(get, b"x\ncmd=barrier_out rc=0")
    (lookup,) = conversation.receive(b"cmd=lookup_name service=a\n")
    conversation.looked_up(lookup, b"x\ny")
    assert conversation.take() == (
        b"cmd=get_result rc=-1 msg=key_a_not_found value=unknown\n"
        b"cmd=lookup_result rc=-1 msg=service_not_found\n"
    )


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"cmd=publish_name service=a", b"cmd=publish_result rc=-1 msg=invalid_port\n"),
        (b"cmd=publish_name service= port=b", b"cmd=publish_result rc=-1 msg=invalid_service\n"),
        (b"cmd=publish_name", b"cmd=publish_result rc=-1 msg=invalid_service\n"),
        (
            b"cmd=publish_name service=a port=" + b"p" * (VALLEN_MAX + 1),
            b"cmd=publish_result rc=-1 msg=invalid_port\n",
        ),
        (
            b"cmd=lookup_name service=" + b"s" * (SERVICE_MAX + 1),
            b"cmd=lookup_result rc=-1 msg=invalid_service\n",
        ),
        (b"cmd=unpublish_name", b"cmd=unpublish_result rc=-1 msg=invalid_service\n"),
    ],
)
def test_a_name_that_breaks_a_limit_is_refused(line, told):
    node = joined(1)
    assert node.say(line + b"\n") == told
    assert node.requests == []


def test_a_name_published_twice_is_refused_the_second_time():
    node = joined(1)
    node.say(b"cmd=publish_name service=a port=b\n")
    told = node.say(b"cmd=publish_name service=a port=c\n")
    assert told == b"cmd=publish_result rc=-1 msg=already_published\n"


# -- spawns ----------------------------------------------------------------


def block(*lines, nprocs=b"1", program=b"a.out"):
    body = (b"nprocs=" + nprocs, b"execname=" + program, *lines)
    return b"mcmd=spawn\n" + b"\n".join(body) + b"\nendcmd\n"


def with_info(**info):
    lines = [b"info_num=%d" % len(info)]
    for index, (key, value) in enumerate(info.items()):
        lines.append(b"info_key_%d=%s" % (index, key.encode()))
        lines.append(b"info_val_%d=%s" % (index, value))
    return lines


@pytest.mark.parametrize(
    ("info", "command"),
    [
        ({"host": b"n1"}, SpawnCommand(b"a.out", (), 1, hosts=(b"n1",))),
        ({"hosts": b"n1, n2,"}, SpawnCommand(b"a.out", (), 1, hosts=(b"n1", b"n2"))),
        ({"wdir": b"/home/a b"}, SpawnCommand(b"a.out", (), 1, b"/home/a b")),
        ({"path": b"/opt/bin/"}, SpawnCommand(b"/opt/bin/a.out", (), 1)),
        ({"path": b"/opt:/usr"}, SpawnCommand(b"a.out", (), 1)),
        ({"env": b"A=b c=d"}, SpawnCommand(b"a.out", (), 1, environment=(b"A=b c=d",))),
        ({"env": b"nonsense"}, SpawnCommand(b"a.out", (), 1)),
        ({"soft": b"0:4", "arch": b"x", "file": b"f"}, SpawnCommand(b"a.out", (), 1)),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_the_info_of_a_spawn(info, command):
    node = joined(1)
    assert node.say(block(*with_info(**info))) == b"cmd=spawn_result rc=0\n"
    assert node.requests == [pmi.SpawnMultiple(commands=(command,), pairs=())]


def test_a_path_does_not_change_a_program_that_names_its_directory():
    node = joined(1)
    node.say(block(*with_info(path=b"/opt"), program=b"./a.out"))
    assert node.requests[0].commands[0].program == b"./a.out"


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (block(nprocs=b"0"), b"invalid_number_of_processes"),
        (block(nprocs=b"-1"), b"invalid_number_of_processes"),
        (block(nprocs=b"2000000000"), b"invalid_number_of_processes"),
        (block(program=b""), b"invalid_path"),
        (block(program=b"x" * 5000), b"invalid_path"),
        (block(*with_info(wdir=b"/" * 5000)), b"invalid_path"),
        (block(b"preput_num=1", b"preput_key_0=", b"preput_val_0=x"), b"invalid_key"),
        (
            block(b"preput_num=1", b"preput_key_0=k", b"preput_val_0=" + b"v" * 5000),
            b"value_too_long",
        ),
    ],
)
def test_a_spawn_that_cannot_be_is_refused_and_the_client_goes_on(data, fault):
    node = joined(1)
    assert node.say(data) == b"cmd=spawn_result rc=-1 msg=" + fault + b"\n"
    assert node.requests == []
    assert node.say(block()) == b"cmd=spawn_result rc=0\n"


@pytest.mark.parametrize(
    "data",
    [
        block(program=b"a\0b"),
        block(b"argcnt=1", b"arg1=a\0b"),
        block(*with_info(wdir=b"/a\0b")),
    ],
    ids=["program", "argument", "directory"],
)
def test_a_spawn_with_a_null_character_is_none(data):
    node = joined(1)
    with pytest.raises(pmi.PmiError, match="a zero byte in"):
        node.say(data)
    assert node.requests == []


def test_a_refused_spawn_of_several_is_answered_once_and_at_its_end():
    node = joined(1)
    assert node.say(block(b"totspawns=2", b"spawnssofar=1", nprocs=b"0")) == b""
    told = node.say(block(b"totspawns=2", b"spawnssofar=2"))
    assert told == b"cmd=spawn_result rc=-1 msg=invalid_number_of_processes\n"


def test_why_a_spawn_failed_is_one_word_of_the_answer():
    conversation = joined(1).conversation
    (spawn,) = conversation.receive(block())
    conversation.spawned(spawn, error="no slots\nare left")
    assert conversation.take() == b"cmd=spawn_result rc=-1 msg=no_slots_are_left\n"
