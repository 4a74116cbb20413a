"""The network server on the network: stations over WebSockets, and their credentials over CUPS."""
