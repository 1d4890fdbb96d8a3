"""Messages as plain text for people."""
