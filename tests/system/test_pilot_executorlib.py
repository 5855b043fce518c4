"""A program for executorlib does with ``yod.pilot.Executor`` what it does with executorlib."""

from __future__ import annotations

import subprocess
import sys

import pytest

import yod.pilot as rp
from native.errors import UsageError

PROGRAM = """
import importlib, os, sys
module, name = sys.argv[1].split(":")
Executor = getattr(importlib.import_module(module), name)

def square(n):
    return n * n

def add(a, b):
    return a + b

def fail():
    raise ValueError("not this one")

def begin():
    return {"b": 10}

if __name__ == "__main__":
    with Executor(max_workers=2) as executor:
        print(executor.submit(square, 3).result(), executor.submit(square, n=5).result())
        print(list(executor.map(square, range(5))))
        print(repr(executor.submit(fail).exception()))
        four, nine = executor.submit(square, 2), executor.submit(square, 3)
        print(executor.submit(add, four, b=nine).result())
        print(executor.submit(os.getcwd, resource_dict={"cores": 1, "cwd": "/tmp"}).result())
    with Executor(max_cores=2, resource_dict={"cores": 1, "threads_per_core": 1}) as executor:
        asked = [executor.submit(square, n, resource_dict={"cores": 1}) for n in range(4)]
        print([future.result() for future in asked], all(future.done() for future in asked))
    try:
        executor.submit(square, 1)
    except RuntimeError:
        print("it is shut down")
    with Executor(max_workers=1, block_allocation=True, init_function=begin) as executor:
        print(executor.submit(add, 1).result(), executor.submit(add, 1, b=2).result())
"""


def test_a_program_does_the_same_with_either(place, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    said = []
    for which in ("executorlib:SingleNodeExecutor", "yod.pilot:Executor"):
        words = [sys.executable, program, which]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
        said.append(done.stdout)
    assert said[0] == said[1]
    assert said[1].splitlines()[:2] == ["9 25", "[0, 1, 4, 9, 16]"]


def test_what_an_executor_of_executorlib_does_more_is_refused_by_name():
    with pytest.raises(UsageError, match="'cache_directory' is refused: results are not kept"):
        rp.Executor(1, cache_directory="cache")
    with pytest.raises(UsageError, match="there is no key 'max_nodes'"):
        rp.Executor(1, max_nodes=2)
