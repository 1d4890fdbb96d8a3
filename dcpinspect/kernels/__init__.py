"""Loops over columns as machine code: how a kernel comes into being is in docs/kernels.md."""
