"""Would anybody notice a network server that has LoRaWAN itself wrong?

The devices of the bench have a codec of their own: what one end gets wrong, the other end sees.
"""

from tests.mutants.mutant import Mutant

CIPHERS = "lns/lorawan/crypto.py"
LAYOUT = "lns/lorawan/frame.py"
FRAMES = "lns/lorawan/frame.py"
ACCEPT = "lns/lorawan/frame.py"
COMMANDS = "lns/lorawan/mac_commands.py"
REGION = "lns/lorawan/region.py"

ANSWERS = "scenarios/test_answers.py"
APPLICATION_PATH = "scenarios/test_application_path.py"
JOINS = "scenarios/test_joins.py"
MAC_ANSWERS = "scenarios/test_mac_answers.py"
MAC_COMMANDS = "scenarios/test_mac_commands.py"

MUTANTS = (
    Mutant(
        "MIC over the other direction",
        CIPHERS,
        "_B0.pack(0x49, direction,",
        "_B0.pack(0x49, 1 - direction,",
        ANSWERS,
    ),
    Mutant("B0 begins with 4A", CIPHERS, "_B0.pack(0x49,", "_B0.pack(0x4A,", ANSWERS),
    Mutant(
        "B0 without the length",
        CIPHERS,
        "int(dev_addr, 16), f_cnt, len(message))",
        "int(dev_addr, 16), f_cnt, 0)",
        ANSWERS,
    ),
    Mutant(
        "MIC over 16 bits of the counter",
        CIPHERS,
        "int(dev_addr, 16), f_cnt, len(message))",
        "int(dev_addr, 16), f_cnt & 0xFFFF, len(message))",
        APPLICATION_PATH,
    ),
    Mutant(
        "last octets of the CMAC",
        CIPHERS,
        "cmac(key, block + message)[:4]",
        "cmac(key, block + message)[-4:]",
        ANSWERS,
    ),
    Mutant(
        "payload encrypted as an uplink",
        CIPHERS,
        "_A.pack(0x01, direction, int",
        "_A.pack(0x01, 0, int",
        ANSWERS,
    ),
    Mutant("payload blocks from 0", CIPHERS, "16), f_cnt, 1)", "16), f_cnt, 0)", ANSWERS),
    Mutant(
        "payload encrypted with 16 bits of the counter",
        CIPHERS,
        "16), f_cnt, 1)",
        "16), f_cnt & 0xFFFF, 1)",
        APPLICATION_PATH,
    ),
    Mutant(
        "payload blocks with the DevAddr turned",
        CIPHERS,
        '_A = struct.Struct("<B4xBIIxB")',
        '_A = struct.Struct(">B4xBIIxB")',
        ANSWERS,
    ),
    Mutant(
        "join MIC of other octets",
        CIPHERS,
        "return cmac(app_key, message)[:4]",
        "return cmac(app_key, message)[4:8]",
        JOINS,
    ),
    Mutant(
        "NwkSKey derived with 02",
        CIPHERS,
        'nwk_s_key=encrypt_blocks(app_key, b"\\x01" + tail)',
        'nwk_s_key=encrypt_blocks(app_key, b"\\x02" + tail)',
        ANSWERS,
    ),
    Mutant(
        "AppSKey derived with 01",
        CIPHERS,
        'app_s_key=encrypt_blocks(app_key, b"\\x02" + tail)',
        'app_s_key=encrypt_blocks(app_key, b"\\x01" + tail)',
        ANSWERS,
    ),
    Mutant(
        "keys with the NetID turned",
        CIPHERS,
        "+ bytes.fromhex(net_id)[::-1]",
        "+ bytes.fromhex(net_id)",
        ANSWERS,
    ),
    Mutant(
        "keys with the DevNonce turned",
        CIPHERS,
        'dev_nonce.to_bytes(2, "little")',
        'dev_nonce.to_bytes(2, "big")',
        ANSWERS,
    ),
    Mutant(
        "keys with the JoinNonce turned",
        CIPHERS,
        'join_nonce.to_bytes(3, "little")',
        'join_nonce.to_bytes(3, "big")',
        ANSWERS,
    ),
    Mutant(
        "accept encrypted as nobody reads it",
        CIPHERS,
        "return clear[:1] + decrypt_blocks(app_key, clear[1:])",
        "return clear[:1] + encrypt_blocks(app_key, clear[1:])",
        ANSWERS,
    ),
    Mutant(
        "FPort 0 read with the AppSKey",
        LAYOUT,
        "key = keys.nwk_s_key if self.f_port == 0 else keys.app_s_key",
        "key = keys.app_s_key",
        MAC_ANSWERS,
    ),
    Mutant(
        "FOptsLen of three bits", FRAMES, "_F_OPTS_LEN = 0x0F", "_F_OPTS_LEN = 0x07", MAC_ANSWERS
    ),
    Mutant(
        "FOptsLen one too long",
        FRAMES,
        "DATA_HEAD.size + (f_ctrl & _F",
        "1 + DATA_HEAD.size + (f_ctrl & _F",
        MAC_ANSWERS,
    ),
    Mutant("ADR in bit 4", LAYOUT, "ADR_BIT = 0x80", "ADR_BIT = 0x10", MAC_COMMANDS),
    Mutant(
        "ADRACKReq in bit 4",
        LAYOUT,
        "ADR_ACK_REQ_BIT = 0x40",
        "ADR_ACK_REQ_BIT = 0x10",
        MAC_COMMANDS,
    ),
    Mutant("ACK in bit 4", LAYOUT, "ACK_BIT = 0x20", "ACK_BIT = 0x10", MAC_COMMANDS),
    Mutant("FPending in bit 6", LAYOUT, "F_PENDING_BIT = 0x10", "F_PENDING_BIT = 0x40", ANSWERS),
    Mutant("DevAddr and FCnt turned", LAYOUT, '"<BIBH"', '">BIBH"', MAC_COMMANDS),
    Mutant("EUIs and DevNonce turned", LAYOUT, '"<BQQH4s"', '">BQQH4s"', JOINS),
    Mutant("accept with the DevAddr turned", ACCEPT, '"<B3s3sIBB"', '">B3s3sIBB"', JOINS),
    Mutant(
        "accept with NetID before JoinNonce",
        ACCEPT,
        '                self.join_nonce.to_bytes(3, "little"),\n'
        "                bytes.fromhex(self.net_id)[::-1],\n",
        "                bytes.fromhex(self.net_id)[::-1],\n"
        '                self.join_nonce.to_bytes(3, "little"),\n',
        JOINS,
    ),
    Mutant(
        "accept with RX2 in the upper half",
        ACCEPT,
        "settings.rx1_dr_offset << 4 | settings.rx2_dr,",
        "settings.rx2_dr << 4 | settings.rx1_dr_offset,",
        ANSWERS,
    ),
    Mutant(
        "accept with another RxDelay",
        ACCEPT,
        "                self.rx_delay,",
        "                2,",
        JOINS,
    ),
    Mutant(
        "LinkCheckAns with the count first",
        COMMANDS,
        "_fit(margin_db, 8), _fit(gateway_count, 8)",
        "_fit(gateway_count, 8), _fit(margin_db, 8)",
        MAC_ANSWERS,
    ),
    Mutant("LinkADRReq with the mask turned", COMMANDS, '"<BHB"', '">BHB"', MAC_ANSWERS),
    Mutant(
        "LinkADRReq with the power first",
        COMMANDS,
        "_fit(dr, 4) << 4 | _fit(tx_power, 4)",
        "_fit(tx_power, 4) << 4 | _fit(dr, 4)",
        MAC_ANSWERS,
    ),
    Mutant(
        "LinkADRReq with NbTrans in the upper half",
        COMMANDS,
        "_fit(ch_mask_cntl, 3) << 4 | _fit(nb_trans, 4)",
        "_fit(nb_trans, 4) << 4 | _fit(ch_mask_cntl, 3)",
        MAC_ANSWERS,
    ),
    Mutant(
        "LinkADRAns: power is bit 0",
        COMMANDS,
        "power_ack=body[0] & 4",
        "power_ack=body[0] & 8",
        MAC_ANSWERS,
    ),
    Mutant("DeviceTime is 0E", COMMANDS, "_DEVICE_TIME = 0x0D", "_DEVICE_TIME = 0x0E", MAC_ANSWERS),
    Mutant("DevStatus is 0B", COMMANDS, "_DEV_STATUS = 0x06", "_DEV_STATUS = 0x0B", MAC_ANSWERS),
    Mutant("LinkADR is 0C", COMMANDS, "_LINK_ADR = 0x03", "_LINK_ADR = 0x0C", MAC_ANSWERS),
    Mutant(
        "DevStatusAns with the margin first",
        COMMANDS,
        "DevStatusAns(battery=body[0], margin_db=((body[1] & 0x3F) ^ 0x20) - 0x20)",
        "DevStatusAns(battery=body[1], margin_db=((body[0] & 0x3F) ^ 0x20) - 0x20)",
        MAC_ANSWERS,
    ),
    Mutant("RX2 of EU868 with DR3", REGION, "    rx2_dr=0,\n", "    rx2_dr=3,\n", ANSWERS),
    Mutant(
        "RX2 of EU868 on another frequency",
        REGION,
        "rx2_freq_hz=869_525_000",
        "rx2_freq_hz=869_500_000",
        ANSWERS,
    ),
    Mutant(
        "RX1 of EU868 one data rate lower",
        REGION,
        "tuple(max(dr - offset, 0) for offset in range(6))",
        "tuple(max(dr - offset - 1, 0) for offset in range(6))",
        ANSWERS,
    ),
    Mutant(
        "accept after six seconds",
        REGION,
        "join_accept_delay_us: int = 5_000_000",
        "join_accept_delay_us: int = 6_000_000",
        ANSWERS,
    ),
    Mutant(
        "RX1 of US915 by sub-band",
        REGION,
        "_US_DOWNLINKS_HZ[channel % 8]",
        "_US_DOWNLINKS_HZ[channel // 8]",
        ANSWERS,
    ),
    Mutant(
        "RX1 of US915 in steps of 500 kHz",
        REGION,
        "923_300_000 + 600_000 * n",
        "923_300_000 + 500_000 * n",
        ANSWERS,
    ),
    Mutant(
        "RX1 of US915 with the data rate of EU868",
        REGION,
        "(13, 12, 11, 10),",
        "(12, 12, 11, 10),",
        ANSWERS,
    ),
    Mutant(
        "whoever gives a slow store up is believed",
        "bench/inspection/outcome.py",
        "if lns in self.cut_off:",
        'if claim["decision"] == "Unavailable":',
        "tests/bench/inspection/test_accounts.py",
    ),
    Mutant(
        "a report that its server keeps to itself is forgotten",
        "bench/inspection/accounts.py",
        "if is_sure and key not in self._sent and since_us > _TOLD_AFTER_US:",
        "if is_sure and key in self._sent and since_us > _TOLD_AFTER_US:",
        "tests/bench/inspection/test_accounts.py",
    ),
    Mutant(
        "a name is held against a server that could have forgotten the frame",
        "bench/inspection/message.py",
        "if check.t_us - told_us < self.retention_us:",
        "if told_us >= 0:",
        "scenarios/test_explored.py",
    ),
    Mutant(
        "an id is used once in a case, says Python",
        "bench/verdict/case.py",
        "1 + sum(b - a < evidence.retention_us for a, b in pairwise(used_us))",
        "len(used_us)",
        "scenarios/test_explored.py",
    ),
    Mutant(
        "a station that is asked for its clock has to be asked",
        "bench/inspection/accounts.py",
        " or station in self.asking:",
        ":",
        "scenarios/test_explored.py",
    ),
    Mutant(
        "repeated answers are those of the newest frame",
        "bench/inspection/store.py",
        "dict(heard.repeated), dict(kept.resubmissions)",
        "{n: k for n, k in heard.repeated.items() if n == newest}, dict(kept.resubmissions)",
        "scenarios/test_explored.py",
    ),
    Mutant(
        "a life that goes on has not come farther",
        "bench/inspection/store.py",
        "goes_on = status == _AGAIN and f_cnt",
        "goes_on = status == _FIRST and f_cnt",
        "scenarios/test_explored.py",
    ),
)
