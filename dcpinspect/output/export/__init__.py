"""Writes messages and tables to files for programs."""
