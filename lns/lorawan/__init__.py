"""LoRaWAN 1.0.x as the specification writes it: bytes, keys, counters, regions; pure, no I/O."""
