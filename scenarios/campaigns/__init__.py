"""Many runs: seeds in processes, exploration, mutation runs, determinism checks, and the failures they leave."""
