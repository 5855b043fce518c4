"""Pictures of a session: figures, a page, a trace, and what RADICAL-Analytics reads.

I/O. Imports native, yod.pilot, yod.trace.
"""
