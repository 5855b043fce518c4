"""What one launch asks for, settled before anybody is contacted.

No I/O. Imports native.
"""
