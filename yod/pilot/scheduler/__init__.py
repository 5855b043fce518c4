"""Which task runs where and when: slots of nodes, waiting tasks, several pilots.

No I/O. Imports native, yod.pilot.model.
"""
