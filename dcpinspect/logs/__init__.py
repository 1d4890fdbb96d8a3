"""What the server's logs, its statistics and the checkpoints of consumers say of the same streams that captures show."""
