"""How are the gateways of a lab set up, looked after and read? By ssh, and from files."""
