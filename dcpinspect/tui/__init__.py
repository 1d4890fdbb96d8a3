"""The terminal UI: one capture, six views of it."""
