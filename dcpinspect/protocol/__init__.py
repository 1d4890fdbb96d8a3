"""Turns bytes into messages: framing, layouts, annotation and the way back."""
