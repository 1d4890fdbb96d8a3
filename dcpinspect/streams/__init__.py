"""Messages to the state of every DCP stream."""
