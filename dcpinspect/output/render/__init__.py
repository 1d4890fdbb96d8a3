"""Shows messages and results as plain text for people."""
