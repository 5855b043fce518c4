"""Slots that jobs have from others, which stand still meanwhile.

No I/O. Imports native.
"""
