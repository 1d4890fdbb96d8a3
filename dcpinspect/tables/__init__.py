"""The tables of messages and records that all code after decoding reads."""
