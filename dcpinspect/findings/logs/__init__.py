"""Reads what the server's logs, its statistics and the checkpoints of consumers say of the streams
that captures show.
"""
