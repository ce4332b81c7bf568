"""The users of a store in a run: producers, consumers, operators. Their actions are drawn and noted."""
