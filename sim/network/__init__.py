"""A simulated network between the machines of one kernel: byte streams that delay, break or fall silent."""
