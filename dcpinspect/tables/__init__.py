"""Tables that everything after decoding reads."""
