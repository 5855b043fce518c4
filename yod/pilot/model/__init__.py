"""What pilots and tasks are: states, descriptions, staging. Client and agent stand on it.

No I/O. Imports native.
"""
