"""Turns messages into the state of every DCP stream."""
