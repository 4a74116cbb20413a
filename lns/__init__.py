"""A LoRaWAN network server that removes duplicates on two levels, and can say why."""
