"""The bench as a scenario sees it: devices, stations, network server, and verbs for all of them."""
