"""LoRaWAN from the specification, a second time: what the far end of the air knows.

Shares no line with `lns.lorawan`, so that a fault there is seen from here. Identifiers are
upper-case hexadecimal text as everywhere, most significant byte first.
"""
