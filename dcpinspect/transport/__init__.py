"""Packets to ordered byte streams."""
