"""Load for a broker that runs in a process of its own: clients that send and pull, over this machine's sockets."""
