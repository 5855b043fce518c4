"""One client of a launch server, from its greeting to its end.

No I/O. Imports native, yod.launch, yod.plan.
"""
