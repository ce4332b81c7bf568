"""What all pictures share: how they look, and how they are left beside their data."""
