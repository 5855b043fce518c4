"""A hostile rank: ``python -m tests.support.hostile_rank SEED COUNT``.

It sends well-formed lines of PMI-1, PMI-2 and an agent to its PCT, in any order and over
several connections, with random values. It reads the answers and ends with status 0, whatever
happens to its connections.
"""

from __future__ import annotations

import os
import random
import select
import socket
import sys

from native.wire import agent

CONNECTIONS = 6
WORDS = ("", "0", "1", "2", "-1", "4294967296", "9" * 30, "x", "x" * 900, "WORLD", "TRUE", "-", "=")
COMMANDS = (
    *("init", "initack", "get_maxes", "get_appnum", "get_my_kvsname", "get_universe_size"),
    *("put", "get", "getbyidx", "create_kvs", "barrier_in", "finalize", "publish_name"),
    *("lookup_name", "unpublish_name", "spawn", "fullinit", "job-getid", "job-connect"),
    *("kvs-put", "kvs-get", "kvs-fence", "info-getnodeattr", "info-putnodeattr"),
    *("info-getjobattr", "name-publish", "name-lookup", "name-unpublish", "set", "explode"),
)
NAMES = (
    *("pmi_version", "pmi_subversion", "pmiid", "pmirank", "rank", "size", "threaded", "kvsname"),
    *("key", "value", "idx", "service", "name", "port", "jobid", "srcid", "wait", "flag", "group"),
    *("nprocs", "execname", "totspawns", "spawnssofar", "argcnt", "arg1", "ncmds", "preput_num"),
    *("preput_key_0", "preput_val_0", "info_num", "info_key_0", "info_val_0", "rc", "thrid"),
)
USUAL = {
    "pmi_version": ("1", "2"),
    "pmi_subversion": ("1", "0"),
    "key": ("k", "a-1", "PMI_process_mapping"),
    "nprocs": ("1", "2", "1000000"),
    "execname": ("/bin/true", "/nonexistent"),
    "totspawns": ("1", "2", "257"),
    "spawnssofar": ("1", "2", "3"),
    "argcnt": ("0", "1"),
    "thrid": ("1", "2"),
}


class Client:
    """Makes what a connection says; the same seed makes the same."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def said(self) -> bytes:
        """A line, a frame, a block or an agent's command."""
        rng = self.rng
        form = rng.random()
        command = rng.choice(COMMANDS)
        words = [(name, self._value(name)) for name in rng.sample(NAMES, rng.randint(0, 6))]
        if form < 0.4:
            return " ".join([f"cmd={command}", *(f"{n}={v}" for n, v in words)]).encode() + b"\n"
        if form < 0.7:
            body = ";".join([f"cmd={command}", *(f"{n}={v}" for n, v in words), ""]).encode()
            return b"%-6d" % len(body) + body
        if form < 0.9:
            lines = ["mcmd=spawn", *(f"{name}={value}" for name, value in words), "endcmd", ""]
            return "\n".join(lines).encode()
        host = rng.choice([os.uname().nodename, "node0", "node1", "nowhere"]).encode()
        text = rng.choice([b"true", b"exit 3", b"", b"x" * 5000])
        directory = rng.choice([b"/", b"/nonexistent", b"/tmp"])
        return agent.encode_command(agent.Command(rng.choice([0, 1, 7]), host, directory, text))

    def greeting(self) -> bytes:
        """What makes a connection somebody's, mostly."""
        rank = int(os.environ.get("PMI_ID", os.environ.get("PMI_RANK", "0")))
        own = b"cmd=initack pmiid=%d\n" % self.rng.choice([rank, rank, 1 - rank, 9])
        version = self.rng.choice([(1, 1), (2, 0)])
        init = b"cmd=init pmi_version=%d pmi_subversion=%d\n" % version
        full = b"cmd=fullinit;pmirank=%d;threaded=FALSE;" % rank
        return own + init + (b"%-6d" % len(full) + full if version[0] == 2 else b"")

    def _value(self, name: str) -> str:
        usual = USUAL.get(name, ())
        return self.rng.choice([*usual, *usual, *usual, *WORDS])


def main() -> None:
    """Say so many things."""
    seed, count = int(sys.argv[1]), int(sys.argv[2])
    client = Client(seed + int(os.environ.get("YOD_RANK", "0")))
    host, _, port = os.environ.get("PMI_PORT", "").rpartition(":")
    sockets: list[socket.socket] = []
    if "PMI_FD" in os.environ:
        sockets.append(socket.socket(fileno=int(os.environ["PMI_FD"])))
        sockets[0].setblocking(False)
    for _ in range(count):
        if not (sockets or port):
            return
        if port and (len(sockets) < CONNECTIONS or client.rng.random() < 0.1):
            new = socket.create_connection((host, int(port)))
            new.setblocking(False)
            sockets.append(new)
            data = client.greeting() if client.rng.random() < 0.8 else b""
        else:
            new, data = client.rng.choice(sockets), client.said()
        try:
            new.send(data)
        except OSError:  # it takes no more, or has hung up
            sockets.remove(new)
            new.close()
        for ready in select.select(sockets, [], [], 0)[0]:
            try:
                still = ready.recv(65536)
            except OSError:
                still = b""
            if not still:
                sockets.remove(ready)
                ready.close()


if __name__ == "__main__":
    main()
