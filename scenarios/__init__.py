"""Claims about the store, and what it takes to judge them. The only package that wires the others together."""
