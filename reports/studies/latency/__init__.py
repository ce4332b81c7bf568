"""Put latency under open-loop traffic, on disk models and on this machine."""
