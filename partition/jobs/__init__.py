"""Jobs of this host by their ids: asks their launches, and words for the answers.

I/O. Imports native.
"""
