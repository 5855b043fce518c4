"""What the Python of a rank runs at its start: an uncaught exception ends the rank.

The directory is in the PYTHONPATH of ranks; nothing of ours imports it. It uses the standard
library of the rank's own Python.

I/O. Imports nothing.
"""
