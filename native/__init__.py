"""What the programs share. The modules here define values: names, numbers, their text forms.

No I/O. Imports native.wire.
"""
