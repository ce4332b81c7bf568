"""`python -m tests.bench.latency`: the real store under the open-loop traffic of `plot latency`."""
