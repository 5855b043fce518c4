"""Studies: clients a second by back-end, the launcher's memory, and how soon it acts.

    python bench/ensemble.py [--clients 1000] [--rounds 3] [--waiting 10000] [--write FILE]

Clients of `true`: from the server's request to its word of the last end, by the back-end yod in a
held allocation, by mpirun and by Slurm, which is polled. Reaction: a client ends when the server
lets it; from there to the server's word of its end, which includes the end of a shell. Waiting
jobs: a Slurm that is played by scripts takes them all and lets them wait; counted are its calls,
and the launcher's processor time for one of them.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from launch import IS_WARM, machine, table, up
from steps import hold
from support import results
from support.slurm import Slurm
from support.slurm import missing as slurm_missing

BIN = Path(sys.executable).parent
LIMIT_S = 900.0
SLOTS = 16
PER_S, MEMORY_MB, REACTION_MS = 300, 50, 10
REACTIONS = 30
POLLS = 5
POLL_S = 10.0  # longer than the scripts take to show all jobs
FEW_SHARE = 20  # of clients for a back-end that takes tens of milliseconds each

HEAD = f"#!{sys.executable}\nimport json, os, sys, time\nfrom yod.ensemble import Server, State\n"

MANY = """
with Server() as server:
    began = time.perf_counter()
    server.submit(0, COUNT)
    failed = sum(state in (State.FAILED, State.ERROR) for _, state in server.updates())
    seconds = time.perf_counter() - began
    launcher = open(f"/proc/{os.environ['LAUNCHER']}/status").read()
    memory = next(line.split()[1] for line in launcher.splitlines() if line.startswith("VmHWM"))
    with open("figures.json", "w") as file:
        json.dump({"seconds": seconds, "failed": failed, "memory": int(memory) / 1024}, file)
    server.finish()
"""

REACTS = """
with Server() as server:
    times = []
    for client in range(COUNT):
        server.submit(client)
        with open("gate", "w") as gate:  # returns when the client has opened it
            time.sleep(0.05)  # let the news that it runs come first
            server.poll(0.0)
            gate.write("go\\n")
            began = time.perf_counter()
        while not server.clients[client].is_final:
            server.poll(60.0)
        times.append((time.perf_counter() - began) * 1000)
    with open("figures.json", "w") as file:
        json.dump(times, file)
    server.finish()
"""

WAITS = """
def spent():
    fields = open(f"/proc/{os.environ['LAUNCHER']}/stat").read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

def calls():
    return os.path.getsize(CALLED)

with Server() as server:
    server.submit(0, COUNT)
    while sum(state is State.WAITING for state in server.clients.values()) < COUNT:
        server.poll(60.0)
    before, asked, began = spent(), calls(), time.monotonic()
    while calls() < asked + POLLS:
        server.poll(0.2)
    figures = {
        "seconds": time.monotonic() - began,
        "calls": calls() - asked,
        "processor": (spent() - before) * 1000 / POLLS,
    }
    with open("figures.json", "w") as file:
        json.dump(figures, file)
    server.finish()
"""

# A Slurm whose jobs wait. The server's job is run at once.
SBATCH = """#!/bin/sh
exec 9>>lock; flock 9
last=$(cat last 2>/dev/null || echo 0); last=$((last + 1)); echo $last >last
name=$(sed -n 's/^#SBATCH --job-name=//p' "$2")
if [ $last = 1 ]; then
    echo "1|RUNNING|$name" >queue
    sh "$2" >server.out 2>&1 9>&- &
else
    echo "$last|PENDING|$name" >>queue
fi
echo $last
"""
SQUEUE = "#!/bin/sh\nprintf . >>calls\ncat queue\n"
SCANCEL = "#!/bin/sh\nsed -i 's/|PENDING|/|CANCELLED|/; s/|RUNNING|/|COMPLETED|/' queue\n"


def script(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def study(
    place: Path, environment: Mapping[str, str], server: str, client: str, **keys: Any
) -> Any:
    """Run a study in a directory of its own; what its server has found."""
    place.mkdir(exist_ok=True)
    text = f"{HEAD}{server}"
    section = {
        "server_executable": script(place / "server", text),
        "client_executable": client,
        "output_dir": str(place / "out"),
        "bind": "127.0.0.1",
        "protocol": "tcp",
        **keys,
    }
    (place / "study.json").write_text(json.dumps({"launcher_config": section}))
    # The shell becomes the launcher, whose process the server so knows.
    words = ["sh", "-c", f"LAUNCHER=$$ exec {BIN}/yod-ensemble -c study.json"]
    with open(place / "said", "w") as said:
        done = subprocess.run(
            words, cwd=place, env=environment, stdout=said, stderr=said, timeout=LIMIT_S
        )
    found = next(iter(place.rglob("figures.json")), None)
    if done.returncode != 0 or found is None:
        raise RuntimeError(f"status {done.returncode}:\n{(place / 'said').read_text()[-2000:]}")
    return json.loads(found.read_text())


def backends(
    stack: ExitStack, scratch: Path
) -> tuple[dict[str, tuple[dict[str, str], dict[str, Any]]], dict[str, str]]:
    """By name the environment and the keys of each back-end; and what is absent, and why."""
    absent: dict[str, str] = {}
    environment = up(str(BIN / "yodctl"), stack, scratch / "host", "--local", "1", "--slots", "32")
    environment["PATH"] = f"{BIN}:{environment.get('PATH', os.defpath)}"
    alloc = [str(BIN / "yodjob"), "alloc", "--json", "-sz", str(SLOTS)]
    _, said = hold(alloc, environment, stack)
    inside = environment | IS_WARM | json.loads(said)["environment"]
    ways: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
        "yod": (inside, {"scheduler": "yod", "job_limit": SLOTS - 1})
    }
    if command := shutil.which("mpirun.openmpi"):
        keys = {
            "scheduler": "openmpi",
            "scheduler_client_command": command,
            "scheduler_server_command": command,
            "scheduler_arg": ["--allow-run-as-root", "--oversubscribe"],
            "job_limit": 4,
        }
        ways["openmpi"] = (environment, keys)
    else:
        absent["openmpi"] = "mpirun.openmpi is not installed"
    if reason := slurm_missing():
        absent["slurm"] = reason
    else:
        slurm = stack.enter_context(Slurm(1, cpus=SLOTS))
        path = {"PATH": f"{BIN}:/usr/sbin:/usr/bin:/sbin:/bin"}
        keys = {"scheduler": "slurm", "timer_delay": 1.0, "job_limit": SLOTS - 1}
        ways["slurm"] = ({**slurm.environment, **path}, keys)
    return ways, absent


def waiting(scratch: Path, environment: Mapping[str, str], count: int) -> Any:
    """What many waiting jobs cost the launcher."""
    place = scratch / "fake"
    place.mkdir()
    for name, text in (("sbatch", SBATCH), ("squeue", SQUEUE), ("scancel", SCANCEL)):
        script(place / name, text)
    counted = scratch / "waiting" / "calls"
    counted.parent.mkdir()
    counted.touch()
    environment = {**environment, "PATH": f"{place}:{environment['PATH']}"}
    server = WAITS.replace("COUNT", str(count)).replace("POLLS", str(POLLS))
    server = server.replace("CALLED", repr(str(counted)))
    keys = {"scheduler": "slurm", "timer_delay": POLL_S, "job_limit": count}
    keys["server_timeout"] = 120
    return study(scratch / "waiting", environment, server, "/bin/true", **keys)


def report(
    figures: Mapping[str, list[Any]],
    reactions: list[float],
    waits: Any,
    absent: Mapping[str, str],
    arguments: argparse.Namespace,
) -> str:
    """The results as a section of Markdown."""
    rows = []
    for name, (count, *found) in figures.items():
        rate = statistics.median(count / one["seconds"] for one in found)
        memory = max(one["memory"] for one in found)
        rows.append([name, str(count), f"{rate:.0f}", f"{memory:.0f}"])
    rate, memory = float(rows[0][2]), float(rows[0][3])
    middle = statistics.median(reactions)
    lines = [
        "# Ensembles",
        "",
        f"Clients of `true`, medians of {arguments.rounds} rounds; `yod` in a held allocation of",
        f"{SLOTS} slots, Slurm with as many processors and a timer of 1 s. Memory of the",
        "launcher at its largest.",
        "",
        *table(["back-end", "clients", "clients a second", "launcher, MB"], rows),
        "",
        f"From a client's end to the server's word of it with `yod`, {len(reactions)} times:",
        f"**{middle:.1f}** ms ({min(reactions):.1f}..{max(reactions):.1f}).",
        f"{arguments.waiting} waiting jobs: {waits['calls']} calls of `squeue` in",
        f"{waits['seconds']:.0f} s, one each {POLL_S:.0f} s; each costs the launcher",
        f"{waits['processor']:.0f} ms of processor time.",
        "",
        *table(
            ["goal", "", "measured"],
            [
                ["clients a second, yod", f"at least {PER_S}", f"{rate:.0f}"],
                ["launcher, MB", f"at most {MEMORY_MB}", f"{memory:.0f}"],
                ["reaction, ms", f"below {REACTION_MS}", f"{middle:.1f}"],
                ["calls an interval", "1", f"{waits['calls'] * POLL_S / waits['seconds']:.2f}"],
            ],
        ),
        *(["", "Not measured:"] if absent else []),
        *(f"- {name}: {reason}" for name, reason in absent.items()),
        "",
        "## Machine and command",
        "",
        *machine(),
        "",
        f"    python bench/ensemble.py --clients {arguments.clients} --rounds {arguments.rounds} "
        f"--waiting {arguments.waiting}",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure, and print or write the results."""
    parser = argparse.ArgumentParser(description="Studies, by back-end.")
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--waiting", type=int, default=10_000)
    parser.add_argument("--write", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        scratch = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-", dir="/tmp"))
        )
        ways, absent = backends(stack, scratch)
        figures: dict[str, list[Any]] = {}
        for number in range(arguments.rounds):
            for name, (environment, keys) in ways.items():
                is_few = name != "yod"
                count = max(1, arguments.clients // FEW_SHARE) if is_few else arguments.clients
                server = MANY.replace("COUNT", str(count))
                where = scratch / f"{name}-{number}"
                one = study(where, environment, server, "/bin/true", **keys)
                if one["failed"]:
                    raise RuntimeError(f"{name}: {one['failed']} clients have failed")
                figures.setdefault(name, [count]).append(one)
            print(f"round {number + 1} of {arguments.rounds}", file=sys.stderr)
        environment, keys = ways["yod"]
        gate = scratch / "gate"
        os.mkfifo(gate)
        client = script(scratch / "client", f"#!/bin/sh\nread go <{gate}\n")
        server = REACTS.replace("COUNT", str(REACTIONS)).replace('"gate"', repr(str(gate)))
        reactions = study(scratch / "reacts", environment, server, client, **keys)
        waits = waiting(scratch, environment, arguments.waiting)
    text = report(figures, reactions, waits, absent, arguments)
    if arguments.write:
        results.write(arguments.write, text)
    print(text)


if __name__ == "__main__":
    main()
