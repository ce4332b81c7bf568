"""Recorder of Python programs: runs in the program's process and replaces Python's file functions."""
