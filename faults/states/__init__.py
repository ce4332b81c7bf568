"""The states that a crash may leave, gone through rather than drawn."""
