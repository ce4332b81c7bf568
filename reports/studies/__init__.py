"""Studies: experiments on simulated and real machines, with figures and tables."""
