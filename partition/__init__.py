"""Brings partitions up on what the user has."""
