"""What is wrong, whose fault it is and what to do: rules over messages, streams and connections."""
