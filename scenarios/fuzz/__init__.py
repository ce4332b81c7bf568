"""Fuzzing: mutates valid inputs of parsers and recovery, and judges each result."""
