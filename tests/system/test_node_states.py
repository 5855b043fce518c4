"""One node of real daemons goes through its states; each answers every kind of request."""

from __future__ import annotations

import re

from tests.support.daemons import Daemons
from tests.support.partition import BIN, finish
from tests.support.wait import read_until, wait_until

IN_USE = "0 of 1 slot free now (node 0 (node0) is in use)"
DRAINED = "0 of 1 slot free now (node 0 (node0) is drained)"


class Node:
    """The only node, with one slot."""

    def __init__(self, partition: Daemons) -> None:
        self.partition = partition

    def command(self, name, *words):
        return finish(self.partition.start_command(BIN / name, *words))

    def start(self):
        """A job that ends by a signal."""
        yod = self.partition.start_yod("sh", "-c", "echo up; exec sleep 600")
        read_until(yod.stdout.fileno(), b"up\n")
        return yod

    def comes_to(self, state):
        wait_until(lambda: self.partition.states() == [state], what=state)

    def is_free(self):
        self.comes_to("free")
        assert self.partition.yod("echo", "hi") == (0, "hi\n", "")

    def refuses(self, text, why):
        """A launch is refused with this text; pingd says why."""
        refused = self.partition.yod("true")
        assert refused.status == 125 and text in refused.err, refused
        assert re.search(why, self.command("pingd").out, re.M)

    def has_jobs(self, count):
        """What requests about jobs find here."""
        done = self.command("pingd", "-interrupt", "-list", "0")
        said = (
            r"SIGTERM to job \d+ \(.*\) on 1 node\n" if count else "no job there that you may end\n"
        )
        assert re.match(said, done.out or done.err.removeprefix("pingd: ")), done


def test_a_node_answers_requests_of_all_kinds_in_each_of_its_states(start_local):
    node = Node(start_local(1, slots=1))
    node.is_free()
    job = node.start()
    node.refuses(IN_USE, r"^node 0 busy with job \d+ of root$")
    drain = ("drain", "0", "-reason", "fan")
    assert re.match(r"node 0 draining: job \d+ \(root\) still", node.command("yodctl", *drain).out)
    node.comes_to("draining")
    node.refuses(DRAINED, r"^node 0 drained by root since .*: fan$")
    node.has_jobs(1)
    assert finish(job).status == 128 + 15

    node.comes_to("drained")
    node.refuses(DRAINED, r"^node 0 drained by root since .*: fan$")
    node.has_jobs(0)
    assert node.command("yodctl", "resume", "0").out == "node 0 resumed\n"
    node.is_free()

    assert node.command("yodctl", "dedicate", "batch", "0").status == 0
    node.refuses("is for batch jobs only", "^node 0 for batch jobs only$")
    node.has_jobs(0)
    assert node.command("yodctl", "dedicate", "any", "0").status == 0
    node.is_free()

    job = node.start()
    node.partition.pcts[0].kill()
    node.comes_to("down")
    finish(job)
    node.refuses("node 0 (node0) is down", "^node 0 down, last heard of ")
    assert re.match(r"node 0 draining: job \d+ \(root\) still", node.command("yodctl", *drain).out)
    node.partition.replace_pct(0, state="drained")
    assert node.command("yodctl", "resume", "0").status == 0
    node.is_free()
