"""The instruments of a lab: what stands in it, its gateways, its power, and what it may send."""
