"""Pictures and tables of how long puts take."""
