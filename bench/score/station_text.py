"""What does the JSON text of a station say about the frame it heard?

Source: Basics Station, LNS protocol, `updf`, `jreq` and `dnmsg`. DevAddr and MIC are signed (or
unsigned) 32-bit integers of the little-endian bytes of the frame; EUIs have any spelling.
"""

from bench.score.schema import DOWN_TEXT, STATION_TEXT

_HEX = "r'^([0-9A-Fa-f]{2})*$'"
# Uplink MAC commands by length (LoRaWAN 1.0.4, 5 and 12; 1.0.2, 14) up to the first LinkCheckReq
# (CID 02) or DeviceTimeReq (CID 0D).
_OTHERS = "^((03|05|07|0A|10|11|13)..|(02|04|08|09|0D|12)|06....)*"
_UINT32, _INT32_MIN = 0xFFFFFFFF, -(1 << 31)
# Whether something follows the object in the text, which Spark's JSON readers do not mind.
_TRAILS = r"(text RLIKE r'^\s*[{]' AND NOT text RLIKE r'[}]\s*$')"


# The text with one spelling of the names of EUIs.
_TEXT = """replace(replace(text, '"JoinEUI"', '"JoinEui"'), '"DevEUI"', '"DevEui"')"""


def eui_no(eui: str) -> str:
    """The EUI in this column as a signed 64-bit number, null where the column holds none."""
    return f"CAST(conv(if({eui} RLIKE '^[0-9A-F]{{16}}$', {eui}, NULL), 16, -10) AS BIGINT)"


def _eui(text: str) -> str:
    """16 upper-case digits from plain, dashed, colon-separated or ID6 spelling; null if none."""
    head, tail = (
        f"filter(split(substring_index({text}, '::', {side}), ':'), part -> part != '')"
        for side in (1, -1)
    )
    groups = f"""transform(if({text} LIKE '%::%',
        concat({head}, array_repeat('0', greatest(4 - size({head}) - size({tail}), 0)), {tail}),
        split({text}, ':')), part -> lpad(part, 4, '0'))"""
    return f"""CASE WHEN {text} RLIKE '^([0-9A-Fa-f]{{2}}[-:]?){{7}}[0-9A-Fa-f]{{2}}$'
          THEN upper(regexp_replace({text}, '[-:]', ''))
        WHEN {text} RLIKE '^[0-9A-Fa-f]{{0,4}}(:[0-9A-Fa-f]{{0,4}}){{1,4}}$' AND size({groups}) = 4
          THEN upper(array_join({groups}, '')) END"""


def _hex(number: str, digits: int) -> str:
    return f"lpad(hex({number}), {digits}, '0')"


def _little_endian(hexadecimal: str, digits: int) -> str:
    octets = (f"substr({hexadecimal}, {place}, 2)" for place in range(digits - 1, 0, -2))
    return f"concat({', '.join(octets)})"


def heard(texts: str) -> str:
    """The rows of this table that stand for a reception, with what their `text` says.

    Adds is_join, readable, frame_id, phy (upper-case hex), dev_addr, mic, mic_no, f_cnt_wire,
    join_eui, join_dev_eui, dev_nonce, f_port, confirmed, adr_ack_req, adr, device_time, link_check,
    xtime, rssi_dbm, snr_db, dr and freq_hz. A text that is no JSON is a reception that cannot be
    read.
    """
    dev_addr, join_eui, join_dev_eui = "dev_addr_", "join_eui_", "join_dev_eui_"
    # | MHDR 1 | DevAddr 4 | FCtrl 1 | FCnt 2 | FOpts 0..15 | FPort 0/1 | FRMPayload 0.. | MIC 4 |
    data_phy = f"""concat({_hex("said.MHdr", 2)}, {_little_endian(dev_addr, 8)},
        {_hex("said.FCtrl", 2)}, {_little_endian(_hex("said.FCnt", 4), 4)}, upper(said.FOpts),
        if(said.FPort >= 0, {_hex("said.FPort", 2)}, ''), upper(said.FRMPayload), mic_)"""
    # | MHDR 1 | JoinEUI 8 | DevEUI 8 | DevNonce 2 | MIC 4 |
    join_phy = f"""concat({_hex("said.MHdr", 2)}, {_little_endian(join_eui, 16)},
        {_little_endian(join_dev_eui, 16)}, {_little_endian(_hex("said.DevNonce", 4), 4)}, mic_)"""
    return rf"""
FROM {texts}
|> EXTEND if({_TRAILS}, NULL, from_json({_TEXT}, '{STATION_TEXT}')) AS said
|> WHERE coalesce(said.msgtype IN ('updf', 'jreq'), false)
     OR NOT (try_parse_json(text) IS NOT NULL AND NOT {_TRAILS})
|> EXTEND coalesce(said.msgtype = 'jreq', false) AS is_join,
     {_eui("said.JoinEui")} AS join_eui_, {_eui("said.DevEui")} AS join_dev_eui_,
     {_hex(f"said.DevAddr & {_UINT32}", 8)} AS dev_addr_,
     {_little_endian(_hex(f"said.MIC & {_UINT32}", 8), 8)} AS mic_
|> EXTEND coalesce(
     said.MIC BETWEEN {_INT32_MIN} AND {_UINT32} AND said.DR BETWEEN 0 AND 15
     AND said.Freq BETWEEN 1 AND {_UINT32} AND coalesce(said.upinfo.xtime, 0) >= 0
     AND (said.upinfo.xtime IS NOT NULL OR get_json_object(text, '$.upinfo.xtime') IS NULL)
     AND (said.upinfo.rctx IS NOT NULL OR get_json_object(text, '$.upinfo.rctx') IS NULL)
     AND (said.msgtype = 'updf' AND said.MHdr IN (64, 128)
         AND said.DevAddr BETWEEN {_INT32_MIN} AND {_UINT32}
         AND said.FCtrl BETWEEN 0 AND 255 AND said.FCnt BETWEEN 0 AND 65535
         AND said.FOpts RLIKE {_HEX} AND length(said.FOpts) / 2 = said.FCtrl & 15
         AND said.FRMPayload RLIKE {_HEX} AND said.FPort BETWEEN -1 AND 255
         AND (said.FPort >= 0 OR said.FRMPayload = '')
         AND (said.FPort != 0 OR said.FOpts = '')
         AND length(said.FOpts) / 2 + length(said.FRMPayload) / 2 + 13 <= 255
       OR said.msgtype = 'jreq' AND said.MHdr = 0 AND join_eui_ IS NOT NULL
         AND join_dev_eui_ IS NOT NULL AND said.DevNonce BETWEEN 0 AND 65535), false) AS readable
|> EXTEND readable AND NOT is_join AS is_data, readable AND is_join AS is_request
|> EXTEND
     CASE WHEN is_data THEN concat_ws(':', dev_addr_, said.FCnt, mic_)
       WHEN is_request THEN concat_ws(':', join_eui_, join_dev_eui_, said.DevNonce)
     END AS frame_id,
     CASE WHEN is_data THEN {data_phy}
       WHEN is_request THEN {join_phy} END AS phy,
     if(is_data, dev_addr_, NULL) AS dev_addr,
     if(readable, mic_, NULL) AS mic,
     if(readable, said.MIC & {_UINT32}, NULL) AS mic_no,
     if(is_data, said.FCnt, NULL) AS f_cnt_wire,
     if(is_request, join_eui_, NULL) AS join_eui,
     if(is_request, join_dev_eui_, NULL) AS join_dev_eui,
     if(is_request, said.DevNonce, NULL) AS dev_nonce,
     if(is_data AND said.FPort >= 0, CAST(said.FPort AS INT), NULL) AS f_port,
     if(is_data, said.MHdr = 128, NULL) AS confirmed,
     if(is_data, said.FCtrl & 64 != 0, NULL) AS adr_ack_req,
     if(is_data, said.FCtrl & 128 != 0, NULL) AS adr,
     if(is_data, upper(said.FOpts) RLIKE '{_OTHERS}0D', NULL) AS device_time,
     if(is_data, upper(said.FOpts) RLIKE '{_OTHERS}02', NULL) AS link_check,
     if(readable, coalesce(said.upinfo.xtime, 0), NULL) AS xtime,
     if(readable, said.upinfo.rssi, NULL) AS rssi_dbm,
     if(readable, said.upinfo.snr, NULL) AS snr_db,
     if(readable, CAST(said.DR AS INT), NULL) AS dr,
     if(readable, said.Freq, NULL) AS freq_hz
|> DROP said, join_eui_, join_dev_eui_, dev_addr_, mic_, is_data, is_request"""


# | MHDR 1 | DevAddr 4 | FCtrl 1 | FCnt 2 | FOpts 0..15 | FPort 0/1 | FRMPayload 0.. | MIC 4 |
_OF_FRAME = {
    "f_cnt": "octet[7] * 256 + octet[6]",
    "ack": "octet[5] & 32 != 0",
    "f_pending": "octet[5] & 16 != 0",
    "f_opts_bytes": "octet[5] & 15",
    "f_port": "if(size(octet) > port_at + 4, octet[port_at], NULL)",
    "confirmed": "octet[0] & 224 = 160",
}
_OF_MESSAGE = {
    "rctx": "said.rctx",
    "rx_delay_s": "said.RxDelay",
    "rx1_dr": "said.RX1DR",
    "rx1_freq_hz": "said.RX1Freq",
    "rx2_dr": "said.RX2DR",
    "rx2_freq_hz": "said.RX2Freq",
}
_SAID = {name: f"if(is_data, {value}, NULL)" for name, value in _OF_FRAME.items()} | _OF_MESSAGE
_SAYS = ", ".join(f"'{name}', CAST({value} AS STRING)" for name, value in _SAID.items())
DNMSGS = f"""
-- The downlinks that reached the tap of a station: what they say of uplink, windows and frame.
-- tap_xtime is that of the uplink, null where there is none; device_class "A" or "C"; in_rx1 and
-- in_rx2: whether that window may be used; says: a map of texts, by the names of
-- bench.verdict.expectation.
FROM station_text |> WHERE direction = 'down'
|> EXTEND if({_TRAILS}, NULL, from_json({_TEXT}, '{DOWN_TEXT}')) AS said
|> WHERE said.msgtype = 'dnmsg'
|> EXTEND transform(regexp_extract_all(said.pdu, '(..)', 1), one -> CAST(conv(one, 16, 10) AS INT))
     AS octet
|> EXTEND said.pdu RLIKE '^([0-9A-Fa-f]{{2}}){{12,}}$' AND get(octet, 0) & 224 IN (96, 160)
       AS is_data, (get(octet, 5) & 15) + 8 AS port_at
|> SELECT run, case, station, t_us, seq, held_us, coalesce(dropped, false) AS dropped,
     said.xtime AS tap_xtime, said.diid, {_eui("said.DevEui")} AS dev_eui, map({_SAYS}) AS says,
     if(said.dC = 2, 'C', 'A') AS device_class,
     -- LoRaWAN: 0 stands for 1 s.
     greatest(coalesce(said.RxDelay, 1), 1) * 1000000L AS rx_delay_us,
     said.RX1Freq IS NOT NULL AS in_rx1, said.RX2Freq IS NOT NULL AS in_rx2"""
