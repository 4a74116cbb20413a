"""What does the JSON text of a station say about the frame it heard?

Source: Basics Station, LNS protocol, `updf` and `jreq`. DevAddr and MIC are signed (or unsigned)
32-bit integers of the little-endian bytes of the frame; EUIs have any spelling.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from bench.score.read import of_kind
from bench.score.schema import DOWN_TEXT, STATION_TEXT

_CONFIRMED_UP, _UNCONFIRMED_UP, _JOIN_REQUEST = 0x80, 0x40, 0x00
_ADR_BIT, _ADR_ACK_REQ_BIT = 0x80, 0x40
_F_OPTS_LEN = 0x0F
_PHY_BYTES_MAX = 255
_WORD_32 = 0xFFFFFFFF
_HEX = "^([0-9A-Fa-f]{2})*$"
# Uplink MAC commands by length (LoRaWAN 1.0.4, 5) up to the first LinkCheckReq (CID 02) or
# DeviceTimeReq (CID 0D).
_OTHERS = "^((03|05|07|0A|10|11|13)..|(02|04|08|09|0C|0D)|06....)*"
_LINK_CHECK_REQ, _DEVICE_TIME_REQ = f"{_OTHERS}02", f"{_OTHERS}0D"


def spoken(texts: DataFrame) -> DataFrame:
    """The rows of `texts` that stand for a reception, with what their `text` says.

    Adds is_join, readable, frame_id, phy (upper-case hex), dev_addr, mic, mic_no, f_cnt_wire,
    join_eui, join_dev_eui, dev_nonce, f_port, confirmed, adr_ack_req, link_check, xtime, rssi_dbm,
    snr_db, dr and freq_hz. A text that is no JSON is a reception that cannot be read.
    """
    return (
        texts.select("*", _said().alias("said"))
        .where(_is_reception())
        .withColumn("is_join", F.coalesce(F.col("said.msgtype") == "jreq", F.lit(False)))
        .withColumn("join_eui", _eui(F.col("said.JoinEui")))
        .withColumn("join_dev_eui", _eui(F.col("said.DevEui")))
        .withColumn("readable", F.coalesce(_join_is_readable() | _data_is_readable(), F.lit(False)))
        .select(*texts.columns, "is_join", "readable", *_columns())
    )


def dnmsgs(lines: DataFrame) -> DataFrame:
    """The downlinks that reached the tap of a station: what they say of uplink and windows.

    Adds tap_xtime (of the uplink, null where there is none), diid, dev_eui, device_class ("A" or
    "C"), rx_delay_us (LoRaWAN: 0 stands for 1 s), in_rx1 and in_rx2 (whether that window may be
    used), says (a map of texts, by the names of `bench.answers`).
    """
    said = F.col("said")
    is_class_c = F.coalesce(said.dC, F.lit(0)) == 2
    delay_s = F.greatest(F.coalesce(said.RxDelay, F.lit(1)), F.lit(1))
    return (
        of_kind(lines, "station.text")
        .where(F.col("direction") == "down")
        .withColumn("said", F.when(~_trails(), F.from_json(_same_euis(), DOWN_TEXT)))
        .where(said.msgtype == "dnmsg")
        .select(
            "run", "case", "station", "t_us", "seq", "held_us", _says(),
            F.coalesce("dropped", F.lit(False)).alias("dropped"),
            said.xtime.alias("tap_xtime"),
            said.diid.alias("diid"),
            _eui(said.DevEui).alias("dev_eui"),
            F.when(is_class_c, "C").otherwise("A").alias("device_class"),
            (delay_s.cast("bigint") * 1_000_000).alias("rx_delay_us"),
            said.RX1Freq.isNotNull().alias("in_rx1"),
            said.RX2Freq.isNotNull().alias("in_rx2"),
        )
    )  # fmt: skip


# | MHDR 1 | DevAddr 4 | FCtrl 1 | FCnt 2 | FOpts 0..15 | FPort 0/1 | FRMPayload 0.. | MIC 4 |
def _says() -> Column:
    said = F.col("said")
    octets = F.regexp_extract_all(said.pdu, F.lit("(..)"), 1)

    def octet(place: Column | int) -> Column:
        found = F.get(octets, F.lit(place) if isinstance(place, int) else place)
        return F.conv(found, 16, 10).cast("int")

    mhdr, f_ctrl = octet(0), octet(5)
    is_data = said.pdu.rlike("^([0-9A-Fa-f]{2}){12,}$") & mhdr.bitwiseAND(0xE0).isin(0x60, 0xA0)
    port_at = f_ctrl.bitwiseAND(_F_OPTS_LEN) + 8
    of_frame = {
        "f_cnt": octet(7) * 256 + octet(6),
        "ack": f_ctrl.bitwiseAND(0x20) != 0,
        "f_pending": f_ctrl.bitwiseAND(0x10) != 0,
        "f_port": F.when(F.size(octets) > port_at + 4, octet(port_at)),
        "confirmed": mhdr.bitwiseAND(0xE0) == 0xA0,
    }
    of_message = {
        "rctx": said.rctx,
        "rx_delay_s": said.RxDelay,
        "rx1_dr": said.RX1DR,
        "rx1_freq_hz": said.RX1Freq,
        "rx2_dr": said.RX2DR,
        "rx2_freq_hz": said.RX2Freq,
    }
    told = {name: F.when(is_data, value) for name, value in of_frame.items()} | of_message
    texts = [part for name, value in told.items() for part in (F.lit(name), value.cast("string"))]
    return F.create_map(*texts).alias("says")


def _said() -> Column:
    return F.when(~_trails(), F.from_json(_same_euis(), STATION_TEXT))


def _same_euis() -> Column:
    """The text with one spelling of the names of EUIs."""
    text = F.replace("text", F.lit('"JoinEUI"'), F.lit('"JoinEui"'))
    return F.replace(text, F.lit('"DevEUI"'), F.lit('"DevEui"'))


def _trails() -> Column:
    """Whether something follows the object in the text, which Spark's JSON readers do not mind."""
    return F.col("text").rlike(r"^\s*\{") & ~F.col("text").rlike(r"\}\s*$")


def _is_reception() -> Column:
    is_json = F.try_parse_json("text").isNotNull() & ~_trails()
    return F.coalesce(F.col("said.msgtype").isin("updf", "jreq"), F.lit(False)) | ~is_json


def _columns() -> list[Column]:
    said, readable, is_join = F.col("said"), F.col("readable"), F.col("is_join")
    data, join = readable & ~is_join, readable & is_join
    dev_addr = _hex(said.DevAddr.bitwiseAND(_WORD_32), 8)
    mic = _little_endian(_hex(said.MIC.bitwiseAND(_WORD_32), 8))
    data_id = F.concat_ws(":", dev_addr, said.FCnt, mic)
    join_id = F.concat_ws(":", "join_eui", "join_dev_eui", said.DevNonce)
    columns = {
        "frame_id": F.when(data, data_id).when(join, join_id),
        "phy": F.when(data, _data_phy(dev_addr, mic)).when(join, _join_phy(mic)),
        "dev_addr": F.when(data, dev_addr),
        "mic": F.when(readable, mic),
        "mic_no": F.when(readable, said.MIC.bitwiseAND(_WORD_32)),
        "f_cnt_wire": F.when(data, said.FCnt),
        "join_eui": F.when(join, F.col("join_eui")),
        "join_dev_eui": F.when(join, F.col("join_dev_eui")),
        "dev_nonce": F.when(join, said.DevNonce),
        "f_port": F.when(data & (said.FPort >= 0), said.FPort.cast("int")),
        "confirmed": F.when(data, said.MHdr == _CONFIRMED_UP),
        "adr_ack_req": F.when(data, said.FCtrl.bitwiseAND(_ADR_ACK_REQ_BIT) != 0),
        "adr": F.when(data, said.FCtrl.bitwiseAND(_ADR_BIT) != 0),
        "device_time": F.when(data, F.upper(said.FOpts).rlike(_DEVICE_TIME_REQ)),
        "link_check": F.when(data, F.upper(said.FOpts).rlike(_LINK_CHECK_REQ)),
        "xtime": F.when(readable, F.coalesce(said.upinfo.xtime, F.lit(0))),
        "rssi_dbm": F.when(readable, said.upinfo.rssi),
        "snr_db": F.when(readable, said.upinfo.snr),
        "dr": F.when(readable, said.DR.cast("int")),
        "freq_hz": F.when(readable, said.Freq),
    }
    return [column.alias(name) for name, column in columns.items()]


def _radio_is_readable() -> Column:
    said = F.col("said")
    return (
        said.MIC.between(-(1 << 31), _WORD_32)
        & said.DR.between(0, 15)
        & said.Freq.between(1, _WORD_32)
        & (F.coalesce(said.upinfo.xtime, F.lit(0)) >= 0)
    )


def _data_is_readable() -> Column:
    said = F.col("said")
    f_opts_bytes = F.length(said.FOpts) / 2
    payload_bytes = F.length(said.FRMPayload) / 2
    return (
        (said.msgtype == "updf")
        & said.MHdr.isin(_UNCONFIRMED_UP, _CONFIRMED_UP)
        & said.DevAddr.between(-(1 << 31), _WORD_32)
        & said.FCtrl.between(0, 0xFF)
        & said.FCnt.between(0, 0xFFFF)
        & said.FOpts.rlike(_HEX)
        & (f_opts_bytes == said.FCtrl.bitwiseAND(_F_OPTS_LEN))
        & said.FRMPayload.rlike(_HEX)
        & said.FPort.between(-1, 0xFF)
        & ((said.FPort >= 0) | (payload_bytes == 0))
        & (f_opts_bytes + payload_bytes + 13 <= _PHY_BYTES_MAX)
        & _radio_is_readable()
    )


def _join_is_readable() -> Column:
    said = F.col("said")
    return (
        (said.msgtype == "jreq")
        & (said.MHdr == _JOIN_REQUEST)
        & F.col("join_eui").isNotNull()
        & F.col("join_dev_eui").isNotNull()
        & said.DevNonce.between(0, 0xFFFF)
        & _radio_is_readable()
    )


# | MHDR 1 | DevAddr 4 | FCtrl 1 | FCnt 2 | FOpts 0..15 | FPort 0/1 | FRMPayload 0.. | MIC 4 |
def _data_phy(dev_addr: Column, mic: Column) -> Column:
    said = F.col("said")
    port = F.when(said.FPort >= 0, _hex(said.FPort, 2))
    return F.concat(
        _hex(said.MHdr, 2),
        _little_endian(dev_addr),
        _hex(said.FCtrl, 2),
        _little_endian(_hex(said.FCnt, 4)),
        F.upper(said.FOpts),
        F.coalesce(port, F.lit("")),
        F.upper(said.FRMPayload),
        mic,
    )


# | MHDR 1 | JoinEUI 8 | DevEUI 8 | DevNonce 2 | MIC 4 |
def _join_phy(mic: Column) -> Column:
    said = F.col("said")
    return F.concat(
        _hex(said.MHdr, 2),
        _little_endian(F.col("join_eui")),
        _little_endian(F.col("join_dev_eui")),
        _little_endian(_hex(said.DevNonce, 4)),
        mic,
    )


def _hex(number: Column, digits: int) -> Column:
    return F.lpad(F.hex(number), digits, "0")


def _little_endian(hexadecimal: Column) -> Column:
    octets = F.regexp_extract_all(hexadecimal, F.lit("(..)"), 1)
    return F.array_join(F.reverse(octets), "")


def _eui(text: Column) -> Column:
    """16 upper-case digits from plain, dashed, colon-separated or ID6 spelling; null if none."""
    octets = r"^([0-9A-Fa-f]{2}[-:]?){7}[0-9A-Fa-f]{2}$"
    id6 = r"^[0-9A-Fa-f]{0,4}(:[0-9A-Fa-f]{0,4}){1,4}$"
    head = F.filter(F.split(F.substring_index(text, "::", 1), ":"), lambda group: group != "")
    tail = F.filter(F.split(F.substring_index(text, "::", -1), ":"), lambda group: group != "")
    zeros = F.array_repeat(F.lit("0"), F.greatest(4 - F.size(head) - F.size(tail), F.lit(0)))
    filled = F.when(text.contains("::"), F.concat(head, zeros, tail)).when(
        ~text.contains("::"), F.split(text, ":")
    )
    groups = F.transform(filled, lambda group: F.lpad(group, 4, "0"))
    return F.when(text.rlike(octets), F.upper(F.regexp_replace(text, "[-:]", ""))).when(
        text.rlike(id6) & (F.size(groups) == 4), F.upper(F.array_join(groups, ""))
    )


def eui_no(eui: str) -> Column:
    """The EUI in this column as a signed 64-bit number, null where the column holds none."""
    digits = F.when(F.col(eui).rlike("^[0-9A-F]{16}$"), F.col(eui))
    return F.conv(digits, 16, -10).cast("bigint")
