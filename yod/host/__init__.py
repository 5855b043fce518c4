"""Where yod writes output, reads input and copies files.

I/O. Imports native, yod.launch, yod.plan, yod.program, yod.remote.
"""
