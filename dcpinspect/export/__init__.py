"""Messages as files for programs."""
