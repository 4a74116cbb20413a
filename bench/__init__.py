"""The instrument: it stimulates a LoRaWAN network server, records what happens, and judges it."""
