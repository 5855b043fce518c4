"""A program: its file, the libraries that it is linked to, the MPI protocols that it speaks.

I/O: reads files. Imports native, yod.plan.
"""
