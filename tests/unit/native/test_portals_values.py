"""The values of native.portals are those of portals4.h."""

from __future__ import annotations

import array
import inspect
import re
from enum import IntEnum, IntFlag
from pathlib import Path

import numpy as np
import pytest

from native import portals
from native.portals import (
    AckReq,
    AtomicOp,
    Datatype,
    EventKind,
    Feature,
    LeOption,
    Limits,
    ListKind,
    MdOption,
    MeOption,
    NiFail,
    NiOption,
    PtOption,
    SearchOp,
    StatusRegister,
)

HEADER = (Path(portals.__file__).parents[1] / "transport/include/portals4.h").read_text()


def constants() -> dict[str, int]:
    """Every number that the header names."""
    found = {}
    for name, bit in re.findall(r"#define PTL_(\w+) \(1u << (\d+)\)", HEADER):
        found[name] = 1 << int(bit)
    for name, same in re.findall(r"#define PTL_(\w+) PTL_(\w+)", HEADER):
        if same in found:
            found[name] = found[same]
    for body in re.findall(r"typedef enum \{([^}]*)\}", HEADER):
        for number, name in enumerate(re.findall(r"PTL_(\w+)", body)):
            found[name] = number
    return found


FLAGS: list[tuple[str, type[IntFlag]]] = [
    ("NI_", NiOption),
    ("PT_", PtOption),
    ("MD_", MdOption),
    ("LE_", LeOption),
    ("ME_", MeOption),
]
ENUMS: list[tuple[str, type[IntEnum]]] = [
    ("", ListKind),
    ("", SearchOp),
    ("", AckReq),
    ("", AtomicOp),
    ("", Datatype),
    ("SR_", StatusRegister),
    ("EVENT_", EventKind),
    ("NI_", NiFail),
]


@pytest.mark.parametrize(("prefix", "flags"), FLAGS, ids=[prefix for prefix, _ in FLAGS])
def test_options_are_those_of_the_header(prefix: str, flags: type[IntFlag]) -> None:
    in_c = {
        name.removeprefix(prefix): value
        for name, value in constants().items()
        if name.startswith(prefix) and not re.search(rf"PTL_{name}[,\n ]*[,}}]", HEADER)
    }
    assert {flag.name: flag.value for flag in flags} == in_c


@pytest.mark.parametrize(("prefix", "enum"), ENUMS, ids=[enum.__name__ for _, enum in ENUMS])
def test_enums_are_those_of_the_header(prefix: str, enum: type[IntEnum]) -> None:
    bodies = re.findall(r"typedef enum \{([^}]*)\}", HEADER)
    in_c = [re.findall(r"PTL_(\w+)", body) for body in bodies]
    assert [prefix + member.name for member in enum] in in_c
    assert [member.value for member in enum] == list(range(len(enum)))


def test_features_are_those_of_the_header() -> None:
    assert {f.name: f.value for f in Feature}.items() <= constants().items()


def test_limits_have_the_fields_of_the_header() -> None:
    body = re.search(r"typedef struct \{([^}]*)\} ptl_ni_limits_t", HEADER)
    assert body
    assert list(Limits.__struct_fields__) == re.findall(r"(\w+);", body[1])


def test_every_call_of_the_header_is_named_where_python_has_it() -> None:
    names = set(re.findall(r"\b(Ptl\w+) \(", HEADER))
    assert len(names) > 50
    texts = []
    for thing in (getattr(portals, name) for name in portals.__all__):
        texts.append(inspect.getdoc(thing) or "")
        parts = vars(thing).values() if inspect.isclass(thing) else ()
        texts += [inspect.getdoc(part) or "" for part in parts if callable(part)]
    told = set(re.findall(r"\bPtl[A-Z]\w+", "\n".join(texts)))
    assert names - told == set()


@pytest.mark.parametrize(
    ("dtype", "datatype"),
    [
        ("int8", Datatype.INT8_T),
        ("uint8", Datatype.UINT8_T),
        ("int16", Datatype.INT16_T),
        ("uint16", Datatype.UINT16_T),
        ("int32", Datatype.INT32_T),
        ("uint32", Datatype.UINT32_T),
        ("int64", Datatype.INT64_T),
        ("uint64", Datatype.UINT64_T),
        ("longlong", Datatype.INT64_T),
        ("float32", Datatype.FLOAT),
        ("float64", Datatype.DOUBLE),
        ("longdouble", Datatype.LONG_DOUBLE),
        ("complex64", Datatype.FLOAT_COMPLEX),
        ("complex128", Datatype.DOUBLE_COMPLEX),
        ("clongdouble", Datatype.LONG_DOUBLE_COMPLEX),
    ],
)
def test_a_numpy_type_has_its_datatype(dtype: str, datatype: Datatype) -> None:
    assert Datatype.of(np.dtype(dtype)) is datatype
    assert Datatype.of(np.zeros(3, dtype)) is datatype
    assert Datatype.of(datatype) is datatype


def test_other_buffers_have_a_datatype_too() -> None:
    assert Datatype.of(array.array("d", [1.0])) is Datatype.DOUBLE
    assert Datatype.of(memoryview(b"abcd").cast("i")) is Datatype.INT32_T
    assert Datatype.of(b"abc") is Datatype.UINT8_T


@pytest.mark.parametrize("dtype", ["float16", "bool", ">i4", "S4", "datetime64[s]", "i4,f8", "O"])
def test_a_type_without_atomic_operations_is_refused(dtype: str) -> None:
    with pytest.raises(TypeError):
        Datatype.of(np.dtype(dtype))


@pytest.mark.parametrize(
    "thing", [np.zeros(2, ">i4"), np.zeros(2, "bool"), np.zeros(2, "e"), 5, "x"]
)
def test_a_thing_without_such_elements_is_refused(thing: object) -> None:
    with pytest.raises(TypeError):
        Datatype.of(thing)
