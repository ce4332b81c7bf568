"""Broker: answers clients' requests over the network, and keeps what stands beside a store for them."""
