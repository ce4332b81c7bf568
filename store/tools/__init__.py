"""Looks into store directories, and makes new ones from them; what is read stays as it is."""
