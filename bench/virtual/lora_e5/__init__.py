"""A LoRa-E5."""
