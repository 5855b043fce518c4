"""What a program is: its file, what it is linked to, the MPI that it speaks.

I/O: reads files. Imports native.
"""
