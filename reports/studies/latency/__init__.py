"""Put latency: the store under open-loop traffic, on disk models and on this machine."""
