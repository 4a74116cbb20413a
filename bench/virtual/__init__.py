"""What is played in software, with its own knowledge of LoRaWAN (`bench.virtual.lorawan`)."""
