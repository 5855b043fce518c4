"""The daemon of a node: its command, its driver, the machine of the node.

No I/O but in commands and drivers. Imports native, pct.
"""
