"""Two readings of the same streams, compared event by event: what only one side has, why, and what differs."""
