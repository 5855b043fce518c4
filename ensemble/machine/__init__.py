"""The life of a study as a state machine: events of schedulers and servers in, actions out.

No I/O. Imports native, ensemble.messages.
"""
