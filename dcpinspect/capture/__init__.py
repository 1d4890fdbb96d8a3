"""Packets, wherever they come from."""
