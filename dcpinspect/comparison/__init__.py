"""Compares two readings of the same streams event by event: what only one side has, why, and what differs."""
