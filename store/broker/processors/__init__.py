"""What the broker answers, a file for each kind of request."""
