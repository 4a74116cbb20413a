"""What is a person told who has a frame read (`python -m lns.lorawan`)?"""

import json

import pytest

from bench.virtual.lorawan.join_frames import join_mic
from lns.lorawan.crypto import encrypt_join_accept
from scenarios.words import FIRST

pytestmark = pytest.mark.requires("virtual time")


HELP = """
Decode one LoRaWAN 1.0.x frame. Keys are used, never printed.

positional arguments:
frame the PHYPayload in hexadecimal

options:
-h, --help show this help message and exit
--nwk-s-key HEX check the MIC of a data frame
--app-s-key HEX and decrypt its payload
--app-key HEX check a join-request, open a join-accept
--f-cnt N the 32-bit counter (default: as on the wire)

examples:
python -m lns.lorawan 40F17DBE4900020001954378762B11FF0D
python -m lns.lorawan 40F17DBE4900020001954378762B11FF0D \\
--nwk-s-key 44024241ED4CE9A68C6A8BC055233FD3 --app-s-key EC925802AE430CA77FD3DD73CB2CC588
""".splitlines()
WRONG_KEY = "a wrong key, or the counter is above 65535: try --f-cnt"


async def served(rig):
    """A frame as there are any."""
    rig.only("west")
    rig.expect(await rig.alpha.send(), FIRST, first="west")


def spelled(octets):
    """Bytes as they are printed."""
    return octets.hex().upper()


def with_keys(device):
    """The options that prove and decrypt what a device says."""
    keys = device.session.keys
    return "--nwk-s-key", keys.nwk_s_key.hex(), "--app-s-key", keys.app_s_key.hex()


async def test_a_data_frame_is_read_field_by_field(rig):
    """With its keys its MIC is checked, and its payload is in clear."""
    await served(rig)
    frame = await rig.craft(rig.alpha, payload=b"\x01\x02", confirmed=True, adr=True)
    address, f_cnt, mic = frame.frame_id.split(":")
    begin = ["type confirmed data up", f"DevAddr {address}", f"FCnt {f_cnt}", "flags ADR"]
    begin += ["FOpts none", "FPort 2", f"payload {spelled(frame.phy[9:11])} (as on the air)"]
    end = f"frame id {frame.frame_id}"
    ask = "give --nwk-s-key and --app-s-key"
    rig.read_frame(frame.phy, says=[*begin, f"MIC {mic} (not checked: {ask})", end])
    as_on_the_wire = ("--f-cnt", f_cnt)
    not_checked = f"MIC {mic} (not checked: {ask})"
    rig.read_frame(frame.phy, *as_on_the_wire, says=[*begin, not_checked, end])
    proven = [f"MIC {mic} (valid)", "decrypted 0102"]
    rig.read_frame(frame.phy, *with_keys(rig.alpha), says=[*begin, *proven, end])
    wrong = [f"MIC {mic} (WRONG for this key)"]
    wrong += [WRONG_KEY]
    rig.read_frame(frame.phy, *with_keys(rig.charlie), says=[*begin, *wrong, end])
    counter = ("--f-cnt", str(int(f_cnt) + (1 << 16)))
    begin[2] = f"FCnt {f_cnt}, full {counter[1]}"
    rig.read_frame(frame.phy, *with_keys(rig.alpha), *counter, says=[*begin, *wrong, end])


async def test_commands_and_bits_are_named(rig):
    """What a device asks for in its header, and on port 0; unknown commands end the list."""
    await served(rig)
    asked = {"ack": True, "adr_ack_req": True, "class_b": True}
    bits = await rig.craft(rig.alpha, payload=b"", port=None, **asked)
    address, f_cnt, mic = bits.frame_id.split(":")
    not_checked = f"MIC {mic} (not checked: give --nwk-s-key and --app-s-key)"
    begin = ["type unconfirmed data up", f"DevAddr {address}", f"FCnt {f_cnt}"]
    due = [*begin, "flags ADRACKReq, ACK, class B", "FOpts none", "FPort none", not_checked]
    rig.read_frame(bits.phy, says=[*due, f"frame id {bits.frame_id}"])
    said = bytes.fromhex("02030706FF2005030D")
    asks = await rig.craft(rig.alpha, f_opts=said)
    named = (
        "020307"
        "06FF20"
        "05030D = LinkCheckReq(), LinkADRAns(power_ack=True, dr_ack=True,"
        " ch_mask_ack=True), DevStatusAns(battery=255, margin_db=-32), command 05 03,"
        " DeviceTimeReq()"
    )
    mic = asks.frame_id.split(":")[2]
    payload = spelled(asks.phy[8 + len(said) + 1 : -4])
    due = [*begin[:2], f"FCnt {asks.f_cnt}", "flags none", f"FOpts {named}", "FPort 2"]
    due += [f"payload {payload} (as on the air)"]
    due += [f"MIC {mic} (not checked: give --nwk-s-key and --app-s-key)"]
    rig.read_frame(asks.phy, says=[*due, f"frame id {asks.frame_id}"])
    unknown = await rig.craft(rig.alpha, port=0, payload=b"\x80")
    mic, air = unknown.frame_id.split(":")[2], spelled(unknown.phy[9:-4])
    due = [*begin[:2], f"FCnt {unknown.f_cnt}", "flags none", "FOpts none", "FPort 0"]
    due += [f"payload {air} (as on the air)", f"MIC {mic} (valid)"]
    due += ["decrypted 80 = no known MAC command", f"frame id {unknown.frame_id}"]
    rig.read_frame(unknown.phy, *with_keys(rig.alpha), says=due)


async def test_what_keys_prove_is_told_of_every_frame(rig):
    """Without a port, beyond a roll-over, and where it is wrong; the counter is the whole one."""
    await served(rig)
    empty = await rig.craft(rig.alpha, payload=b"", port=None)
    address, f_cnt, mic = empty.frame_id.split(":")
    begin = ["type unconfirmed data up", f"DevAddr {address}", f"FCnt {f_cnt}", "flags none"]
    begin += ["FOpts none", "FPort none"]
    end = f"frame id {empty.frame_id}"
    rig.read_frame(empty.phy, *with_keys(rig.alpha), says=[*begin, f"MIC {mic} (valid)", end])
    wrong = [f"MIC {mic} (WRONG for this key)"]
    wrong += [WRONG_KEY]
    rig.read_frame(empty.phy, *with_keys(rig.charlie), says=[*begin, *wrong, end])
    for port, clear, text in (
        (2, b"\x01\x02", "0102"),
        (0, b"\x02", "02 = LinkCheckReq()"),
        (0, b"", "none = no known MAC command"),
    ):
        frame = await rig.craft(rig.alpha, f_cnt=0x3000A, payload=clear, port=port)
        mic, air = frame.frame_id.split(":")[2], spelled(frame.phy[9:-4]) or "none"
        due = [*begin[:2], "FCnt 10, full 196618", *begin[3:5], f"FPort {port}"]
        due += [f"payload {air} (as on the air)", f"MIC {mic} (valid)", f"decrypted {text}"]
        due += [f"frame id {frame.frame_id}"]
        rig.read_frame(frame.phy, *with_keys(rig.alpha), "--f-cnt", "196618", says=due)


async def test_whoever_asks_wrongly_has_the_status_of_a_wrong_frame(rig):
    """Whatever calls this program needs to know no other one."""
    await served(rig)
    phy = bytes.fromhex("E0")
    says = "python -m lns.lorawan: error: argument --f-cnt: invalid int value: 'ten'"
    rig.read_frame(phy, "--f-cnt", "ten", says=[says], status=4)
    says = "python -m lns.lorawan: error: argument --app-key: expected one argument"
    rig.read_frame(phy, "--app-key", says=[says], status=4)


async def test_whoever_asks_for_help_has_done_nothing_wrong(rig):
    """What can be asked for is told, with examples."""
    await served(rig)
    rig.read_frame(bytes.fromhex("E0"), "--help", says=HELP)


async def test_a_join_request_is_read(rig):
    """EUIs and DevNonce; with the AppKey its MIC is checked."""
    await served(rig)
    request = await rig.craft_join(rig.bravo, dev_nonce=0x1234)
    join_eui, dev_eui, _ = request.frame_id.split(":")
    mic = spelled(request.phy[-4:])
    due = ["type join-request", f"join EUI {join_eui}", f"device EUI {dev_eui}", "DevNonce 4660"]
    rig.read_frame(request.phy, says=[*due, f"MIC {mic} (not checked: give --app-key)"])
    key = ("--app-key", rig.bravo.provisioned.app_key.hex())
    rig.read_frame(request.phy, *key, says=[*due, f"MIC {mic} (valid)"])
    other = ("--app-key", "00" * 16)
    rig.read_frame(request.phy, *other, says=[*due, f"MIC {mic} (WRONG for this key)"])


@pytest.mark.parametrize("channels", [(), (867_100_000, 867_900_000)], ids=["none", "two"])
async def test_a_join_accept_is_opened(rig, channels):
    """With the AppKey: what it tells the device, and whose it is."""
    listens = {"rx1_dr_offset": 2, "rx2_dr": 3, "rx_delay_s": 5}
    if channels:
        listens["more_channels_hz"] = channels
    device = rig.provision("listener", activation="otaa", join_nonce_min=66_051, **listens)
    rig.only("west")
    join = await device.join()
    rig.expect(join, FIRST, first="west")
    down = [one.get("text") or "" for one in rig.case.events if one.get("direction") == "down"]
    phy = next(json.loads(one)["pdu"] for one in reversed(down) if '"pdu"' in one)
    key = ("--app-key", device.provisioned.app_key.hex())
    due = ["type join-accept", "JoinNonce 66051", "NetID 000013"]
    due += [f"DevAddr {device.session.dev_addr}", "RX1 offset 2", "RX2 DR 3", "RX1 delay 5 s"]
    due += ["channels 867100000 Hz, 867900000 Hz" if channels else "CFList none", "MIC valid"]
    rig.read_frame(bytes.fromhex(phy), *key, says=due)
    why = "error: cannot read this frame: the MIC of the join-accept does not fit this AppKey"
    rig.read_frame(bytes.fromhex(phy), "--app-key", "00" * 16, says=[why], status=4)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--nwk-s-key", "geheim"), "--nwk-s-key and --app-s-key are needed together"),
        (("--app-key", "geheim"), "--app-key is not hexadecimal: two digits per byte are needed"),
        (("--app-key", "00" * 15), "--app-key needs 16 bytes (32 digits)"),
        (
            ("--app-key", "0x" + "00" * 16),
            "--app-key is not hexadecimal: two digits per byte are needed",
        ),
        (
            ("--nwk-s-key", "00" * 16, "--app-s-key", "00" * 15),
            "--app-s-key needs 16 bytes (32 digits)",
        ),
        (
            ("--nwk-s-key", "00" * 17, "--app-s-key", "00" * 16),
            "--nwk-s-key needs 16 bytes (32 digits)",
        ),
        (("--app-s-key", "00" * 16), "--nwk-s-key and --app-s-key are needed together"),
        (("--f-cnt", "65537"), "--f-cnt 65537 does not end in the 16 bits on the wire, 2"),
        (("--f-cnt", str((1 << 32) + 2)), "--f-cnt 4294967298 does not end in the 16 bits on the"),
    ],
)
async def test_an_option_that_is_wrong_is_told(rig, options, says):
    """What was given for a key is not repeated."""
    await served(rig)
    if "4294967298" in says:
        says += " wire, 2"
    phy = bytes.fromhex("40F17DBE4900020001954378762B11FF0D")
    rig.read_frame(phy, *options, says=[f"error: {says}"], status=4)


NO_JOIN_ACCEPT = "error: cannot read this frame: a join-accept has 17 or 33 bytes, not {}"
RFU_OR_MAJOR = "error: cannot read this frame: RFU or major bits set in MHDR {:02X}"
NO_REJOIN = (
    "error: cannot read this frame: a rejoin-request has 19 bytes (types 0, 2) or 24 (type 1),"
    " not {}"
)
REFUSED = [
    ("", "error: cannot read this frame: a frame has 1 to 255 bytes, not 0"),
    ("E0" * 256, "error: cannot read this frame: a frame has 1 to 255 bytes, not 256"),
    *(
        (f"{octet:02X}" + "00" * 11, RFU_OR_MAJOR.format(octet))
        for octet in range(1 << 8)
        if octet % 32
    ),
    ("40" + "00" * 10, "error: cannot read this frame: a data frame has at least 12 bytes, not 11"),
    (
        "40" + "00" * 4 + "01" + "00" * 6,
        "error: cannot read this frame: FOptsLen 1 reaches beyond the frame",
    ),
    ("00" * 22, "error: cannot read this frame: a join-request has 23 bytes, not 22"),
    ("00" * 24, "error: cannot read this frame: a join-request has 23 bytes, not 24"),
    *(("20" + "00" * (n - 1), NO_JOIN_ACCEPT.format(n)) for n in (16, 18, 32, 34)),
    *(("C0" + "00" * (n - 1), NO_REJOIN.format(n)) for n in (18, 20, 24)),
    ("C001" + "00" * 17, NO_REJOIN.format(19)),
    ("C003" + "00" * 17, NO_REJOIN.format(19)),
]
OTHERS = [
    ("E0", ["type proprietary", "payload none"]),
    ("E0" + "AB" * 254, ["type proprietary", f"payload {'AB' * 254}"]),
    (
        "C000130000" + "0807060504030201" + "0A00" + "DEADBEEF",
        [
            *("type rejoin-request, type 0 (LoRaWAN 1.1)", "device EUI 0102030405060708"),
            *("join EUI not sent", "NetID 000013", "RJcount 10"),
            "MIC DEADBEEF (not checked: LoRaWAN 1.1 is not supported)",
        ],
    ),
    (
        "C002563412" + "0807060504030201" + "FFFF" + "DEADBEEF",
        [
            *("type rejoin-request, type 2 (LoRaWAN 1.1)", "device EUI 0102030405060708"),
            *("join EUI not sent", "NetID 123456", "RJcount 65535"),
            "MIC DEADBEEF (not checked: LoRaWAN 1.1 is not supported)",
        ],
    ),
    (
        "C001" + "1817161514131211" + "0807060504030201" + "0001" + "DEADBEEF",
        [
            *("type rejoin-request, type 1 (LoRaWAN 1.1)", "device EUI 0102030405060708"),
            *("join EUI 1112131415161718", "NetID not sent", "RJcount 256"),
            "MIC DEADBEEF (not checked: LoRaWAN 1.1 is not supported)",
        ],
    ),
    (
        "20" + "00" * 16,
        ["type join-accept", f"encrypted {'00' * 16} (give --app-key to open it)"],
    ),
    (
        "60010000260001000200003C0000DEADBEEF",
        [
            *("type unconfirmed data down", "DevAddr 26000001", "FCnt 1", "flags none"),
            *("FOpts none", "FPort 2", "payload 00003C0000 (as on the air)"),
            "MIC DEADBEEF (not checked: give --nwk-s-key and --app-s-key)",
            "frame id 26000001:1:DEADBEEF",
        ],
    ),
    (
        "A00100002671FFFF06E0DEADBEEF",
        [
            *("type confirmed data down", "DevAddr 26000001", "FCnt 65535"),
            *("flags RFU bit 6, ACK, FPending", "FOpts 06 = DevStatusReq()", "FPort 224"),
            "payload none (as on the air)",
            "MIC DEADBEEF (not checked: give --nwk-s-key and --app-s-key)",
            "frame id 26000001:65535:DEADBEEF",
        ],
    ),
    (
        "40010000260101000200DEADBEEF",
        [
            *("type unconfirmed data up", "DevAddr 26000001", "FCnt 1", "flags none"),
            *("FOpts 02 = LinkCheckReq()", "FPort 0", "payload none (as on the air)"),
            "MIC DEADBEEF (not checked: give --nwk-s-key and --app-s-key)",
            "warning MAC commands in FOpts and on FPort 0: the receiver discards this frame",
            "frame id 26000001:1:DEADBEEF",
        ],
    ),
    (
        "60010000260101000600DEADBEEF",
        [
            *("type unconfirmed data down", "DevAddr 26000001", "FCnt 1", "flags none"),
            *("FOpts 06 = DevStatusReq()", "FPort 0", "payload none (as on the air)"),
            "MIC DEADBEEF (not checked: give --nwk-s-key and --app-s-key)",
            "warning MAC commands in FOpts and on FPort 0: the receiver discards this frame",
            "frame id 26000001:1:DEADBEEF",
        ],
    ),
]


async def test_what_is_no_frame_is_told_so(rig):
    """With what is wrong, at the first and the last length of each kind."""
    await served(rig)
    for phy, says in REFUSED:
        rig.read_frame(bytes.fromhex(phy), says=[says], status=4)
    for phy, lines in OTHERS:
        rig.read_frame(bytes.fromhex(phy), says=lines)
        if "DevAddr 26000001" in lines:  # of which these are no keys
            at = next(at for at, line in enumerate(lines) if line.startswith("MIC"))
            wrong = "MIC DEADBEEF (WRONG for this key)", WRONG_KEY
            says = [*lines[:at], *wrong, *lines[at + 1 :]]
            rig.read_frame(bytes.fromhex(phy), *with_keys(rig.alpha), says=says)


UP, DOWN = "4001000026000001", "6001000026000001"
"""Data frames without FOpts, up to their FCnt."""


def read_commands(rig, begin, octets, *names):
    """Let somebody read these MAC commands in the header of a frame."""
    head = f"{begin[:10]}{len(octets):02X}{begin[12:16]}"
    way = "up" if begin == UP else "down"
    rig.read_frame(
        bytes.fromhex(f"{head}{spelled(octets)}DEADBEEF"),
        says=[
            *(f"type unconfirmed data {way}", "DevAddr 26000001", "FCnt 256", "flags none"),
            *(f"FOpts {spelled(octets)} = {', '.join(names)}", "FPort none"),
            "MIC DEADBEEF (not checked: give --nwk-s-key and --app-s-key)",
            "frame id 26000001:256:DEADBEEF",
        ],
    )


EIRPS_DBM = (8, 10, 12, 13, 14, 16, 18, 20, 21, 24, 26, 27, 29, 30, 33, 36)
REQUESTS = {0x04: 1, 0x05: 4, 0x07: 5, 0x08: 1, 0x0A: 4, 0x10: 0, 0x11: 4, 0x12: 3, 0x13: 3}
"""How many octets follow the other commands of a server, and below of a device."""
ANSWERS = {0x04: 0, 0x05: 1, 0x07: 1, 0x08: 0, 0x0A: 1, 0x10: 1, 0x11: 1, 0x12: 0, 0x13: 1}


async def test_every_field_of_what_a_server_commands_is_read(rig):
    """Each value of each small field, and both ends of the large ones (LoRaWAN 1.0.4, 5)."""
    await served(rig)
    for nibble in range(16):
        mask, control, other = 0x8001 << nibble & 0xFFFF, nibble % 8, 15 - nibble
        redundancy = nibble % 2 << 7 | control << 4 | other  # the first bit is RFU
        link_adr = bytes([3, nibble << 4 | other, mask & 0xFF, mask >> 8, redundancy])
        named = f"LinkADRReq(dr={nibble}, tx_power={other}, ch_mask={mask},"
        named += f" ch_mask_cntl={control}, nb_trans={other})"
        read_commands(rig, DOWN, link_adr, named)
    for octet in range(256):  # the first two bits are RFU
        downlink, uplink, eirp_dbm = octet & 32 != 0, octet & 16 != 0, EIRPS_DBM[octet & 15]
        named = f"TxParamSetupReq(downlink_dwell={downlink}, uplink_dwell={uplink},"
        read_commands(rig, DOWN, bytes([9, octet]), f"{named} max_eirp_dbm={eirp_dbm})")
    for margin, gateways in ((0, 1), (1, 255), (127, 0), (254, 128)):
        named = f"LinkCheckAns(margin_db={margin}, gateway_count={gateways})"
        read_commands(rig, DOWN, bytes([2, margin, gateways]), named)
    for gps_s, fraction in ((0, 255), (0x12345678, 1), (0xFFFFFFFF, 128)):
        octets = b"\x0d" + gps_s.to_bytes(4, "little") + bytes([fraction])
        named = f"DeviceTimeAns(gps_s={gps_s}, fraction_256={fraction})"
        read_commands(rig, DOWN, octets, named)
    for cid, length in REQUESTS.items():
        told = bytes(range(0xF0, 0xF0 + length))
        named = f"command {cid:02X} {spelled(told)}".rstrip()
        read_commands(rig, DOWN, bytes([cid]) + told + b"\x06", named, "DevStatusReq()")


async def test_every_field_of_what_a_device_answers_is_read(rig):
    """Each bit of an answer, each margin, and batteries that mean something of their own."""
    await served(rig)
    for bits in range(8):
        power, dr, mask = bits & 4 != 0, bits & 2 != 0, bits & 1 != 0
        named = f"LinkADRAns(power_ack={power}, dr_ack={dr}, ch_mask_ack={mask})"
        read_commands(rig, UP, bytes([3, 0xF8 | bits]), named)
    for margin in range(-32, 32):
        battery, rfu = (0, 1, 127, 128, 254, 255)[margin % 6], 0xC0 * (margin % 2)
        named = f"DevStatusAns(battery={battery}, margin_db={margin})"
        read_commands(rig, UP, bytes([6, battery, margin & 0x3F | rfu]), named)
    read_commands(
        rig, UP, b"\x02\x09\x0d", "LinkCheckReq()", "TxParamSetupAns()", "DeviceTimeReq()"
    )
    for cid, length in ANSWERS.items():
        told = bytes(range(0xF0, 0xF0 + length))
        named = f"command {cid:02X} {spelled(told)}".rstrip()
        read_commands(rig, UP, bytes([cid]) + told + b"\x02", named, "LinkCheckReq()")


MASKS = "0100" + "0080" + "FF00" + "00FF" + "3412"
CF_LISTS = {
    "": "CFList none",
    "184F84" + "E85684" + "B85E84" + "886684" + "586E84" + "00":
        "channels 867100000 Hz, 867300000 Hz, 867500000 Hz, 867700000 Hz, 867900000 Hz",
    "FFFFFF" + "000000" + "010000" + "000000" * 2 + "00": "channels 1677721500 Hz, 100 Hz",
    MASKS + "00" * 5 + "01": "masks 0001 8000 00FF FF00 1234",
    MASKS + "00" * 5 + "02": f"CFList {MASKS}{'00' * 5}02",
}  # fmt: skip


async def test_every_field_of_a_join_accept_is_read(rig):
    """Each value of what the device is told of its windows; RFU bits, and every kind of list."""
    await served(rig)
    app_key = rig.bravo.provisioned.app_key
    for value in range(16):
        cf_list = list(CF_LISTS)[value % len(CF_LISTS)]
        offset, dr, rfu = value % 8, 15 - value, 0x80 * (value % 2)
        body = bytes.fromhex("20" + "010203" + "0A0B0C" + "0D0E0F26")
        body += bytes([rfu | offset << 4 | dr, 0xF0 * (value % 2) | value]) + bytes.fromhex(cf_list)
        phy = encrypt_join_accept(app_key, body + join_mic(app_key, body))
        says = ["type join-accept", "JoinNonce 197121", "NetID 0C0B0A", "DevAddr 260F0E0D"]
        says += [f"RX1 offset {offset}", f"RX2 DR {dr}", f"RX1 delay {value or 1} s"]
        says += [CF_LISTS[cf_list], "MIC valid"]
        rig.read_frame(phy, "--app-key", app_key.hex(), says=says)
