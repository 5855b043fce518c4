"""Says hello from every rank, with nothing but the environment.

yod -sz 4 python examples/hello.py
"""

import os

rank, size, node = (os.environ[name] for name in ("YOD_RANK", "YOD_SIZE", "YOD_NODE_NAME"))
print(f"hello from rank {rank} of {size} on {node}")
