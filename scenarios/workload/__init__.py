"""Who uses a store while a run goes on: producers, consumers, operators. What they do is drawn and noted."""
