"""Is what is wrong before the antenna charged to the network server, with field and values?

Each must end in FAIL (LNS), never in a FAIL of anybody else, and a reason must say what `says` has.
"""

from tests.mutants.mutant import SCENARIOS, Mutant

DOWNLINK = "lns/downlink/downlink.py"
JOIN = "lns/uplink/join.py"
FRAME = "lns/downlink/downlink.py"
CODEC = "lns/lorawan/frame.py"
CRYPTO = "lns/lorawan/crypto.py"
REGION = "lns/lorawan/region.py"
CONFIG = "lns/station/messages.py"
SPELLING = "lns/station/messages.py"
MAC = "lns/uplink/mac_layer.py"
MESSAGE = "lns/delivery/publisher.py"


def _mutant(name: str, file: str, old: str, new: str, says: str) -> Mutant:
    # Where no station comes up, every case takes its minute: one file of them is enough.
    noticed_by = "scenarios/test_multi_concentrator.py" if file == CONFIG else SCENARIOS
    return Mutant(name, file, old, new, noticed_by, says)


MUTANTS = (
    # --- the windows of an answer ---
    _mutant(
        "RX1 in another data rate", DOWNLINK,
        "rx1_dr=rx1 and rx1[0],", "rx1_dr=rx1 and max(rx1[0] - 1, 0),",
        r"RX1DR: expected 5, observed 4",
    ),
    _mutant(
        "RX1 on another frequency", DOWNLINK,
        "rx1_freq_hz=rx1 and rx1[1],", "rx1_freq_hz=rx1 and rx1[1] + 200_000,",
        r"RX1Freq: expected 868\d+, observed 868\d+",
    ),
    _mutant(
        "RX2 in another data rate", DOWNLINK,
        "rx2_dr=rx2 and rx2[0],", "rx2_dr=rx2 and rx2[0] + 3,",
        r"RX2DR: expected 0, observed 3",
    ),
    _mutant(
        "RX2 on another frequency", DOWNLINK,
        "rx2_freq_hz=rx2 and rx2[1],", "rx2_freq_hz=rx2 and rx2[1] - 100_000,",
        r"RX2Freq: expected 869525000, observed 869425000",
    ),
    _mutant(
        "RX1 a second late", DOWNLINK,
        "rx_delay_s=scheduled.rx1_delay_us // 1_000_000,",
        "rx_delay_s=scheduled.rx1_delay_us // 1_000_000 + 1,",
        r"RxDelay: expected (1|5), observed (2|6)",
    ),
    _mutant(
        "RX1 and RX2 50 ms late", DOWNLINK,
        "            xtime=reception.xtime,\n            rctx=",
        "            xtime=reception.xtime + 50_000,\n            rctx=",
        r"xtime: expected \d+, observed \d+, \+50000 µs",
    ),
    _mutant(
        "RX2 that nobody named", DOWNLINK,
        "rx1, rx2 = offered.rx1, offered.rx2", "rx1, rx2 = offered.rx1, None",
        r"RX2DR: expected 0, observed none",
    ),
    _mutant(
        "an accept in the data window", DOWNLINK,
        "delay_us = self._region.join_accept_delay_us", "delay_us = self._region.receive_delay_us",
        r"RxDelay: expected 5, observed 1",
    ),
    _mutant(
        "data in the window of an accept", DOWNLINK,
        "dev_eui, delay_us = session.dev_eui, session.listening.rx_delay_s * 1_000_000",
        "dev_eui, delay_us = session.dev_eui, self._region.join_accept_delay_us",
        r"RxDelay: expected 1, observed 5",
    ),
    _mutant(
        "an answer by another antenna", DOWNLINK,
        "rctx=reception.rctx,", "rctx=reception.rctx + 1,",
        r"rctx: expected 0, observed 1",
    ),
    _mutant(
        "a diid again and again", DOWNLINK,
        "self._diid = self._diid + 1 if self._diid else", "self._diid = self._diid or",
        r"diid: expected one never used for this station, observed \d+",
    ),
    _mutant(
        "an answer for another device", SPELLING,
        '        "msgtype": "dnmsg",\n        "DevEui": eui_dashed(dnmsg.dev_eui),',
        '        "msgtype": "dnmsg",\n        "DevEui": "01-02-03-04-05-06-07-08",',
        r"DevEui: expected 70B3D57ED0\w+, observed 0102030405060708",
    ),
    _mutant(
        "an answer as for class C", SPELLING,
        '"dC": dnmsg.device_class,', '"dC": 2,',
        r"dC: expected 0, observed 2",
    ),
    _mutant(
        "a priority that no station reads", SPELLING,
        '"priority": dnmsg.priority,', '"priority": 300,',
        r"priority: expected 0 to 255, observed 300",
    ),
    _mutant(
        "a GPS time for class A", SPELLING,
        '"priority": dnmsg.priority,', '"priority": dnmsg.priority, "gpstime": 1,',
        r"gpstime: expected none, observed 1",
    ),
    _mutant(
        "half a window", SPELLING,
        'fields["RX2DR"], fields["RX2Freq"] = dnmsg.rx2', 'fields["RX2DR"] = dnmsg.rx2[0]',
        r"RX2DR and RX2Freq: expected both or none, observed one",
    ),
    _mutant(
        "a frame that is no hexadecimal", SPELLING,
        '"pdu": dnmsg.pdu.hex(),', '"pdu": dnmsg.pdu.hex() + "x",',
        r"pdu: expected 1 to 255 octets in hexadecimal, observed \w+",
    ),
    _mutant(
        "class C in another data rate", DOWNLINK,
        "            rx2_dr=rx2_dr,\n", "            rx2_dr=rx2_dr + 3,\n",
        r"RX2DR: expected 0, observed 3",
    ),
    _mutant(
        "class C on another frequency", DOWNLINK,
        "            rx2_freq_hz=rx2_freq_hz,", "            rx2_freq_hz=rx2_freq_hz + 100_000,",
        r"RX2Freq: expected 869525000, observed 869625000",
    ),
    _mutant(
        "class C as class A", DOWNLINK,
        "            device_class=CLASS_C,\n", "",
        r"dC: expected 2, observed 0",
    ),
    # --- what the region says ---
    _mutant(
        "RX2 of another network", REGION,
        "    rx2_dr=0,\n    rx2_freq_hz=869_525_000,",
        "    rx2_dr=3,\n    rx2_freq_hz=869_525_000,",
        r"RX2DR: expected 0, observed 3",
    ),
    _mutant(
        "RX1 on the frequency beside", REGION,
        "def _rx1_where_it_was_sent(freq_hz: int) -> int:\n    return freq_hz",
        "def _rx1_where_it_was_sent(freq_hz: int) -> int:\n    return 868_100_000",
        r"RX1Freq: expected 868[35]00000, observed 868100000",
    ),
    _mutant(
        "RX1 slower than the uplink", REGION,
        "rx1_drs=tuple(tuple(max(dr - offset, 0)", "rx1_drs=tuple(tuple(max(dr - offset - 1, 0)",
        r"RX1DR: expected 5, observed 4",
    ),
    _mutant(
        "JOIN_ACCEPT_DELAY1 of six seconds", REGION,
        "join_accept_delay_us: int = 5_000_000", "join_accept_delay_us: int = 6_000_000",
        r"RxDelay: expected 5, observed 6",
    ),
    _mutant(
        "US915: RX1 on another channel", REGION,
        "return _US_DOWNLINKS_HZ[channel % 8]", "return _US_DOWNLINKS_HZ[(channel + 1) % 8]",
        r"RX1Freq: expected 92\d+, observed 92\d+",
    ),
    _mutant(
        "US915: RX1 one rate off", REGION,
        "        (13, 12, 11, 10),\n", "        (12, 12, 11, 10),\n",
        r"RX1DR: expected 13, observed 12",
    ),
    # --- the channel plan of the stations ---
    _mutant(
        "freq_range of the wrong band", CONFIG,
        "list(region.freq_range_hz)", "[863_000_000, 868_000_000]",
        r"freq_range: expected \[863000000, 870000000\], observed \[863000000, 868000000\]",
    ),
    _mutant(
        "data rates in another order", CONFIG,
        "[list(row) for row in _data_rates(region)]",
        "[list(row) for row in _data_rates(region)[1::-1] + _data_rates(region)[2:]]",
        r"DRs: expected \[\[12, 125, 0\].*, observed \[\[11, 125, 0\]",
    ),
    _mutant(
        "a radio beside its channels", REGION,
        "centres_hz=(867_500_000, 868_500_000),", "centres_hz=(867_500_000, 868_600_000),",
        r"chan_multiSF: expected \[867100000, .*, observed \[",
    ),
    _mutant(
        "hardware that no station has", CONFIG,
        '"hwspec": "sx1301/1",', '"hwspec": "sx1301/9",',
        r"hwspec: expected sx1301/1, observed sx1301/9",
    ),
    _mutant(
        "a region that no station knows", CONFIG,
        '"region": region.name,', '"region": "EU999",',
        r"region: expected (EU868|US915), observed EU999",
    ),
    _mutant(
        "a filter of networks", CONFIG,
        '"NetID": None,', '"NetID": [7],',
        r"NetID: expected none, or one with 000013, observed \[7\]",
    ),
    # --- join accepts ---
    _mutant(
        "RX1DROffset of nobody", JOIN,
        "DlSettings(listening.rx1_dr_offset,", "DlSettings(listening.rx1_dr_offset + 1,",
        r"RX1DROffset of DLSettings: expected 0, observed 1",
    ),
    _mutant(
        "RX2 of an accept that is not kept", JOIN,
        "self._region.rx2(listening.rx2_dr)[0])", "self._region.rx2(listening.rx2_dr)[0] + 3)",
        r"RX2DataRate of DLSettings: expected 0, observed 3",
    ),
    _mutant(
        "RxDelay of an accept that is not kept", JOIN,
        "rx_delay=listening.rx_delay_s,", "rx_delay=listening.rx_delay_s + 2,",
        r"join accept.*|RxDelay: expected 1, observed 3",
    ),
    _mutant(
        "a CFList of another band", JOIN,
        'if more_hz else b"",', "if more_hz else bytes(15) + bytes([1]),",
        r"CFList: expected , observed 0+1$",
    ),
    _mutant(
        "a NetID of nobody", JOIN,
        "            net_id=self._net_id,\n            dev_addr=",
        '            net_id="000014",\n            dev_addr=',
        r"NetID: expected 000013, observed 000014",
    ),
    _mutant(
        "a DevAddr of another network", JOIN,
        "nwk_id = int(self._net_id, 16) & 0x7F", "nwk_id = 0x14",
        r"NwkID of DevAddr: expected 19, observed 20",
    ),
    _mutant(
        "the same JoinNonce", JOIN,
        "            join_nonce=join_nonce,\n", "            join_nonce=7,\n",
        r"JoinNonce: expected one never used, observed 7",
    ),
    _mutant(
        "an accept that is not encrypted", CODEC,
        "return encrypt_join_accept(app_key, body + join_mic(app_key, body))",
        "return body + join_mic(app_key, body)",
        r"dnmsg for \w+ to .*: MIC: expected \w+, observed \w+",
    ),
    _mutant(
        "an accept that is encrypted as an uplink", CRYPTO,
        "return clear[:1] + decrypt_blocks(app_key, clear[1:])",
        "return clear[:1] + encrypt_blocks(app_key, clear[1:])",
        r"MIC: expected \w+, observed \w+",
    ),
    # --- frames ---
    _mutant(
        "an ACK that is missing", FRAME, "ack=content.ack,", "ack=False,",
        r"ACK: expected yes, observed no",
    ),
    _mutant(
        "an ACK of nothing", FRAME, "ack=content.ack,", "ack=True,",
        r"ACK: expected no, observed yes",
    ),
    _mutant(
        "the MIC of another counter", FRAME, "f_cnt=f_cnt_down,", "f_cnt=f_cnt_down ^ 0x10000,",
        r"(FCntDown|MIC): expected .*, observed \w+",
    ),
    _mutant(
        "FPort of nobody", FRAME,
        "f_port=said.f_port if said else None,", "f_port=said.f_port + 1 if said else None,",
        r"FPort and payload: expected \d+:\w+ \w+, observed \d+:\w+",
    ),
    _mutant(
        "another payload", FRAME,
        'payload=said.payload if said else b"",', 'payload=said.payload[::-1] if said else b"",',
        r"FPort and payload: expected \d+:\w+ \w+, observed \d+:\w+",
    ),
    _mutant(
        "confirmed for unconfirmed", FRAME,
        "MType.CONFIRMED_DOWN if said and said.confirmed else MType.UNCONFIRMED_DOWN,",
        "MType.CONFIRMED_DOWN if not (said and said.confirmed) else MType.UNCONFIRMED_DOWN,",
        r"MType: expected UNCONFIRMED_DOWN, observed CONFIRMED_DOWN",
    ),
    _mutant(
        "FPending that is missing", FRAME,
        "f_pending=waiting > (1 if said else 0),", "f_pending=False,",
        r"FPending: expected yes, observed no",
    ),
    _mutant(
        "FPending of nothing", FRAME,
        "f_pending=waiting > (1 if said else 0),", "f_pending=True,",
        r"FPending: expected no, observed yes",
    ),
    _mutant(
        "another DevAddr", FRAME,
        "            dev_addr=session.dev_addr,\n            f_cnt=",
        '            dev_addr=DevAddr("26FFFFFF"),\n            f_cnt=',
        r"DevAddr: expected \w+, observed 26FFFFFF",
    ),
    _mutant(
        "a MIC as of an uplink", CODEC,
        "    return body + data_mic(keys.nwk_s_key, direction, dev_addr, f_cnt, body)",
        "    return body + data_mic(keys.nwk_s_key, Direction.UP, dev_addr, f_cnt, body)",
        r"direction in the MIC: expected down, observed up",
    ),
    _mutant(
        "a downlink as an uplink", FRAME,
        "else MType.UNCONFIRMED_DOWN,", "else MType.UNCONFIRMED_UP,",
        r"MType: expected a data downlink, observed UNCONFIRMED_UP",
    ),
    # --- MAC commands ---
    _mutant(
        "no gateway heard it", MAC, "gateway_count=1", "gateway_count=0",
        r"GwCnt of LinkCheckAns: expected 1 to \d+, observed 0",
    ),
    _mutant(
        "another margin", MAC,
        "round(reception.snr_db - _REQUIRED_SNR_DB[data_rate.sf])",
        "round(reception.snr_db + _REQUIRED_SNR_DB[data_rate.sf])",
        r"margin of LinkCheckAns: expected \d+, observed \d+",
    ),
    _mutant(
        "a link check without an answer", MAC,
        "        if isinstance(command, LinkCheckReq):", "        if False:",
        r"LinkCheckAns: expected 1, observed 0",
    ),
    _mutant(
        "a time that is not told", MAC, "elif isinstance(command, DeviceTimeReq):", "elif False:",
        r"DeviceTimeAns: expected 1, observed 0",
    ),
    _mutant(
        "all channels off", REGION, "ch_mask=0x0007", "ch_mask=0x0000",
        r"ChMask of LinkADRReq: expected 7, observed 0",
    ),
    _mutant(
        "full power", MAC, "tx_power=KEEP_TX_POWER,", "tx_power=0,",
        r"TXPower of LinkADRReq: expected 15, observed 0",
    ),
    _mutant(
        "a slower device", MAC,
        "        dr=dr,\n        tx_power=KEEP_TX_POWER,", "        dr=0, tx_power=KEEP_TX_POWER,",
        r"DataRate of LinkADRReq: expected 5, observed 0",
    ),
    # --- messages for the application ---
    _mutant(
        "a payload read backwards", MESSAGE,
        '"payload": self.payload.hex(),', '"payload": self.payload[::-1].hex(),',
        r"payload: expected \w+, observed \w+",
    ),
    _mutant(
        "a message of another port", MESSAGE,
        '"fPort": self.f_port,', '"fPort": 1,',
        r"fPort: expected \w+, observed 1",
    ),
    _mutant(
        "a message of another frequency", MESSAGE,
        '"freqHz": self.freq_hz,', '"freqHz": self.freq_hz + 1,',
        r"freqHz: expected \d+, observed \d+",
    ),
    _mutant(
        "a message without its strength", MESSAGE,
        '"snr": _number(self.snr_db),', '"snr": None,',
        r"snr: expected a value, observed none",
    ),
    _mutant(
        "RSSI for SNR", MESSAGE,
        '"rssi": _number(self.rssi_dbm),', '"rssi": _number(self.snr_db),',
        r"rssi: expected -[\d.]+, observed [\d.]+",
    ),
    _mutant(
        "confirmed for unconfirmed, told", MESSAGE,
        '"confirmed": self.confirmed,', '"confirmed": not self.confirmed,',
        r"confirmed: expected (yes|no), observed (yes|no)",
    ),
)  # fmt: skip
