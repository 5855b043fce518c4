"""Where yod shows output and reads input: the terminal, pipes, files.

I/O. Imports native, yod.launch, yod.plan.
"""
