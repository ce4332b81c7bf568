"""Soak test: honest and hostile clients of one broker, and the cost of the hostile clients."""
