"""How long does a frame last? LoRa by the SX1272/73 data sheet, 4.1.1.7; FSK by its octets."""

from bench.virtual.lorawan.channel_plan import Lora, Modulated

_LONG_SYMBOL_US = 16_000
_HEADER_SYMBOLS = 8
_FSK_FRAME = 5 + 3 + 1 + 2  # preamble, sync word, length, CRC


def time_on_air_us(
    modulated: Modulated,
    octets: int,
    *,
    crc: bool,
    coding_rate: int = 1,
    preamble: int = 8,
    implicit_header: bool = False,
    optimised: bool | None = None,
) -> int:
    """Microseconds, rounded to the nearest, of a PHYPayload of so many octets.

    `crc`: uplinks have one, LoRa downlinks none. `coding_rate` 1 to 4 is 4/5 to 4/8. `optimised`:
    low data rate optimisation; None where LoRaWAN has it, with symbols longer than 16 ms.
    """
    if not isinstance(modulated, Lora):
        return round(8_000_000 * (_FSK_FRAME + octets) / modulated.bit_rate_bps)
    chips = 2**modulated.sf
    if optimised is None:
        optimised = chips * 1_000_000 / modulated.bw_hz > _LONG_SYMBOL_US
    bits_left = 8 * octets - 4 * modulated.sf + 28
    bits_left += 16 if crc else 0
    bits_left -= 20 if implicit_header else 0
    bits_of_a_code_word = 4 * (modulated.sf - (2 if optimised else 0))
    code_words = 0
    while code_words * bits_of_a_code_word < bits_left:
        code_words += 1
    payload = _HEADER_SYMBOLS + code_words * (4 + coding_rate)
    # 4.25 symbols of sync word and start; a symbol lasts 2**SF / BW.
    return int((preamble + 4.25 + payload) * chips * 1_000_000 / modulated.bw_hz + 0.5)
