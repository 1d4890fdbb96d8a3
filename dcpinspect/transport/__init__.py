"""Turns packets into ordered byte streams."""
