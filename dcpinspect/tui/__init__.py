"""The terminal UI: one capture, five views of it."""
