"""Any program, recorded as the kernel sees it: by ptrace and seccomp, without privileges."""
