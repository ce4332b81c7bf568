INTERFACE: int
"""All functions are in `Core` in store/formats/columns.py."""
