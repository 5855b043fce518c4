"""One launch, from the request for nodes to the exit status.

No I/O. Imports native, yod.launch.stacks, yod.plan.
"""
