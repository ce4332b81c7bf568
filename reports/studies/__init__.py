"""Studies: experiments on simulated and real machines, each with its figures, tables and command."""
