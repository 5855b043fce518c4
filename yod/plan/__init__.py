"""What one launch asks for, decided before bebopd is contacted.

No I/O. Imports native.
"""
