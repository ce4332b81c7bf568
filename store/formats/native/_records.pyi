INTERFACE: int
"""All else is `Core` in store/formats/columns.py."""
