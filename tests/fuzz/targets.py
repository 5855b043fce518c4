"""The fuzzers: how they are built, for libFuzzer (clang) and for replay (gcc), and run.

`python -m tests.fuzz.targets SECONDS` fuzzes each target for an equal part of that time. It
leaves findings in `tests/fuzz/found/`, and inputs that reach new code in `tests/fuzz/new/`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.c.build import ADDRESS, ENVIRONMENT, FLAGS, build
from tests.fuzz import seeds

HERE = Path(__file__).parent
TARGETS = ["wire", "frames", "shake", "near"]
WRAPPED = ["-Wl,--wrap=clock_gettime", "-Wl,--wrap=timerfd_settime"]
LINK = {"wire": [], "frames": WRAPPED, "shake": WRAPPED, "near": WRAPPED}
LONGEST_BYTES = {"wire": 300, "frames": 600, "shake": 400, "near": 300}
# A null pointer plus 0 is a null pointer here; clang's check knows only the letter of C17.
CLANG = [*ADDRESS, "-fno-sanitize=pointer-overflow"]
COVERED = [*CLANG, "-fsanitize=fuzzer-no-link"]
FUZZER = [*CLANG, "-fsanitize=fuzzer"]


def has_clang() -> bool:
    """Is there a clang that links fuzzers?"""
    if not shutil.which("clang"):
        return False
    found = subprocess.run(
        ["clang", "-print-resource-dir"], capture_output=True, text=True, check=True
    )
    runtime = Path(found.stdout.strip()) / "lib"
    return any(runtime.glob("*/libclang_rt.fuzzer*.a"))


def link(target: str, library: Path, into: Path, *, is_fuzzer: bool) -> Path:
    """The binary of a target: libFuzzer's, or one that replays the files it is given."""
    compiler = ["clang", *FUZZER] if is_fuzzer else ["gcc", *ADDRESS, HERE / "replay.c"]
    binary = into / f"{'fuzz' if is_fuzzer else 'replay'}_{target}"
    source = HERE / f"fuzz_{target}.c"
    command = [*compiler, *FLAGS, f"-I{HERE}", source, library, *LINK[target], "-o", binary]
    subprocess.run(command, check=True)
    return binary


def corpus(target: str) -> list[Path]:
    """What fuzzing has found, in order of name."""
    return sorted((HERE / "corpus" / target).glob("*"))


def fuzz_for(seconds: int) -> int:
    """The worst of the targets' exit codes."""
    worst = 0
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        library = build(place / "objects", COVERED, "clang")
        for target in TARGETS:
            binary = link(target, library, place, is_fuzzer=True)
            seeds.write(target, place / target)
            new = HERE / "new" / target
            new.mkdir(parents=True, exist_ok=True)
            found = HERE / "found"
            found.mkdir(exist_ok=True)
            options = [
                f"-max_total_time={seconds // len(TARGETS)}",
                f"-max_len={LONGEST_BYTES[target]}",
                "-use_value_profile=1",
                "-timeout=20",
                f"-artifact_prefix={found}/{target}-",
            ]
            kept = HERE / "corpus" / target  # none for what is pure
            directories = [new, *([kept] if kept.exists() else []), place / target]
            run = subprocess.run([binary, *options, *directories], env=ENVIRONMENT, check=False)
            worst = max(worst, abs(run.returncode))
    return worst


if __name__ == "__main__":
    sys.exit(fuzz_for(int(sys.argv[1])))
