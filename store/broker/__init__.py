"""The broker: what clients say to a store over the network, and what stands beside the store for them."""
