"""PMI.md: its limits are those of the code, and its commands are answered."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from native.limits import Limits
from native.wire import pmi as wire
from pct.host import pmi_port
from pct.wireup import mapping
from pct.wireup.pmi import conversation as pmi
from pct.wireup.pmi import requests, version1, version2
from tests.support.pmi_client import frame, joined

TEXT = (Path(__file__).parents[2] / "native" / "wire" / "PMI.md").read_text()
MODULES = (Limits(), wire, mapping, pmi, version1, version2, pmi_port, requests)


def rows(section: str) -> list[list[str]]:
    """The cells of the tables of one section, without their heads."""
    body = TEXT.split(f"\n## {section}")[1].split("\n## ")[0]
    lines = [line for line in body.splitlines() if line.startswith("| ")][2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def limits() -> list[tuple[str, int]]:
    found = []
    for _, value, names in rows("5."):
        numbers = [
            int(number) * (1024 if unit == "KiB" else 1)
            for number, unit in re.findall(r"(\d+) ?(KiB)?", value)
        ]
        found += zip(re.findall(r"`(\w+)`", names), numbers, strict=True)
    return found


@pytest.mark.parametrize(("name", "value"), limits())
def test_a_limit_of_the_page_is_that_of_the_code(name: str, value: int) -> None:
    (own,) = {getattr(module, name) for module in MODULES if hasattr(module, name)}
    assert own == value


@pytest.mark.parametrize("client", [row[0] for row in rows("2.")])
def test_a_command_of_pmi_1_is_known(client: str) -> None:
    line = client.split("`")[1].split(" [")[0]
    node = joined(1)
    if line == "mcmd=spawn":
        line += "\nnprocs=1\nexecname=a\nendcmd"
    told = node.say(line.replace("pmiid=R", "pmiid=2").encode() + b"\n")
    assert told or isinstance(node.requests[0], pmi.Abort)


@pytest.mark.parametrize("client", [row[0] for row in rows("3.")][:-1])
def test_a_command_of_pmi_2_is_known(client: str) -> None:
    for one in client.split("`")[1::2]:
        command = one.partition(";")[0]
        if command.startswith("srcid") or command == "subcmd":
            continue
        words = b"key=a;value=b;name=c;port=d;pmirank=2;"
        if command == "spawn":
            words = b"ncmds=1;subcmd=a;maxprocs=1;"
        node = joined(2)
        told = node.say(frame(b"cmd=%s;%s" % (command.encode(), words)))
        assert b"not_supported" not in told, command
        assert told or isinstance(node.requests[0], pmi.Abort), command
