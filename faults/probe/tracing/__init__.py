"""Recorder: records a program's system calls by ptrace, without privileges."""
