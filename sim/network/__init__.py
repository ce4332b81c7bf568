"""A simulated network: byte streams that delay, break or fall silent."""
