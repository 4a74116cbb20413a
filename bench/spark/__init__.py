"""Spark on this machine or a cluster: Java, sessions, and queries that read each other."""
