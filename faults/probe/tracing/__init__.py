"""Recorder of any program, at its system calls: by ptrace and seccomp, without privileges."""
