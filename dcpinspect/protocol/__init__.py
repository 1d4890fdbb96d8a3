"""Bytes to messages: framing, layouts, annotation and the way back."""
