"""What the programs share. The modules here are words: names, numbers and how they are written.

No I/O. Imports native.wire.
"""
