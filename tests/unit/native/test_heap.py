"""Memory that is freed is used again, not taken from the kernel again."""

import subprocess
import sys

RELAY = """
import resource
from native.host.heap import keep_freed_memory
keep_freed_memory()
def pass_on():
    messages = [bytes(bytearray(65536)) for _ in range(8)]
pass_on()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(500):
    pass_on()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def test_messages_that_come_and_go_fault_no_pages():
    done = subprocess.run(
        [sys.executable, "-c", RELAY], capture_output=True, text=True, check=True, timeout=60
    )
    assert int(done.stdout) < 1000  # 64 000 where each has its pages anew
