"""The launcher: its commands, its interface for Python programs, its driver.

No I/O but in commands and drivers. Imports native, yod.
"""
