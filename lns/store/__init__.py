"""What outlives a restart of the network server."""
