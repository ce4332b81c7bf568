"""Messages that are delivered later: delay levels, and transactions with their half messages and decisions."""
