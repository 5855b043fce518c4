"""docs/PORTALS.md names a program of tests/c for each code, event and failure of portals4.h."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent.parent
INCLUDE = ROOT / "native/transport/include"
HEADER = (INCLUDE / "portals4.h").read_text()
PROGRAMS = ROOT / "tests/c"
CODES = set(re.findall(r"X \((PTL_\w+), \d+", (INCLUDE / "portals4_err.h").read_text()))
NAMES = r"(?:Ptl\w+(?:,\s+Ptl\w+)*|All)"


def calls_of(text: str) -> list[str]:
    """The calls that a part of the header declares, and that return a code."""
    return re.findall(r"PTL_API int\s+(Ptl\w+) \(", text)


def comments_of(text: str) -> str:
    found = re.findall(r"/\*(.*?)\*/", text, re.DOTALL)
    return re.sub(r"\s*\n \*\s*", " ", "\n * ".join(found))


def codes_of_calls() -> set[tuple[str, str]]:
    """What the header says: every pair of a call and a code other than PTL_OK."""
    needed: set[tuple[str, str]] = set()
    for section in re.split(r"(?=/\* ---- )", HEADER)[1:]:
        calls = calls_of(section)
        said = comments_of(section)
        for names, text in re.findall(rf"({NAMES}): (.*?)(?={NAMES}: |$)", said, re.DOTALL):
            named = calls if names == "All" else re.findall(r"Ptl\w+", names)
            assert set(named) <= set(calls), f"{names} are not declared there"
            codes = set(re.findall(r"\bPTL_\w+", text)) & CODES
            codes -= set(re.findall(r"\b(PTL_\w+) never", text))
            needed |= {(call, code) for call in named for code in codes}
    handleless = {"PtlInit", "PtlHandleIsEqual"}
    for call in set(calls_of(HEADER)) - handleless:
        needed.add((call, "PTL_NO_INIT"))
        if call != "PtlAtomicSync":
            needed.add((call, "PTL_ARG_INVALID"))
    return needed


def enumerators(name: str) -> set[str]:
    body = re.search(rf"typedef enum \{{([^}}]*)\}} {name};", HEADER)
    assert body
    return set(re.findall(r"PTL_\w+", body[1]))


def rows() -> list[tuple[str, ...]]:
    """Cells of the tables below the heading, without their marks."""
    text = (ROOT / "docs/PORTALS.md").read_text()
    part = re.split(r"^## ", text.split("## Where each code and event is tested")[1], flags=re.M)[0]
    lines = [line for line in part.splitlines() if line.startswith("|")]
    cells = [
        tuple(cell.strip().replace("`", "") for cell in line.strip("|").split("|"))
        for line in lines
    ]
    return [
        row for row in cells if row[0] and not set(row[0]) <= set("-: ") and "Program" not in row
    ]


def text_of(program: str) -> str:
    """A program with the headers of its own directory that it includes."""
    path = PROGRAMS / f"test_{program}.c"
    assert path.exists(), f"{program} does not exist"
    text, seen = path.read_text(), set[str]()
    while new := set(re.findall(r'#include "(\w+\.h)"', text)) - seen:
        seen |= new
        text += "".join(
            (PROGRAMS / name).read_text() for name in sorted(new) if (PROGRAMS / name).exists()
        )
    return text


def test_the_header_is_understood() -> None:
    needed = codes_of_calls()
    assert ("PtlNIInit", "PTL_PID_IN_USE") in needed
    assert ("PtlMEAppend", "PTL_LIST_TOO_LONG") in needed
    assert ("PtlTriggeredSwap", "PTL_NO_SPACE") in needed
    assert ("PtlEQWait", "PTL_INTERRUPTED") in needed
    assert ("PtlSetMap", "PTL_IGNORED") not in needed
    assert {code for _, code in needed} == CODES - {"PTL_OK", "PTL_IGNORED"}


def test_each_code_of_each_call_has_a_program() -> None:
    every = set(calls_of(HEADER))
    shown: set[tuple[str, str]] = set()
    for row in rows():
        if len(row) != 3:
            continue
        calls = every if row[0] == "every call" else set(re.findall(r"Ptl\w+", row[0]))
        assert calls <= every, f"unknown: {calls - every}"
        shown |= {(call, row[1].split()[0]) for call in calls}
    assert codes_of_calls() - shown == set()


def test_each_event_and_failure_has_a_program() -> None:
    shown = {row[0]: row[1] for row in rows() if len(row) == 2}
    wanted = enumerators("ptl_event_kind_t") | enumerators("ptl_ni_fail_t")
    assert set(shown) == wanted


def test_each_program_exists_and_says_what_it_is_named_for() -> None:
    for row in rows():
        if row[-1] == "none":
            continue
        text = text_of(row[-1])
        name = row[-2].split()[0]
        assert name in text, f"{row[-1]} says nothing of {name}"
        if len(row) == 3 and row[0] != "every call":
            for call in re.findall(r"Ptl\w+", row[0]):
                assert call in text, f"{row[-1]} says nothing of {call}"
