"""What does this LoRaWAN frame say? `python -m lns.lorawan <hex>`, for a person."""

import argparse
import sys
from collections.abc import Iterator, Sequence

from lns.lorawan.crypto import KEY_BYTES, SessionKeys
from lns.lorawan.frame import (
    Data,
    Frame,
    JoinAccept,
    JoinRequest,
    MalformedFrame,
    MType,
    RejoinRequest,
    cf_list_channel_masks,
    cf_list_frequencies_hz,
    open_join_accept,
    parse,
)
from lns.lorawan.mac_commands import OtherCommand, parse_downlink, parse_uplink

_EXAMPLES = """\
examples:
  python -m lns.lorawan 40F17DBE4900020001954378762B11FF0D
  python -m lns.lorawan 40F17DBE4900020001954378762B11FF0D \\
      --nwk-s-key 44024241ED4CE9A68C6A8BC055233FD3 --app-s-key EC925802AE430CA77FD3DD73CB2CC588
"""

_M_TYPE_NAMES = {
    MType.UNCONFIRMED_UP: "unconfirmed data up",
    MType.UNCONFIRMED_DOWN: "unconfirmed data down",
    MType.CONFIRMED_UP: "confirmed data up",
    MType.CONFIRMED_DOWN: "confirmed data down",
}

WRONG = 4

Lines = Iterator[tuple[str, str]]


def main(argv: Sequence[str] | None = None) -> int:
    """Print the fields of one frame; 0 if it could be read, 4 on bad input."""
    try:
        arguments = _parser().parse_args(argv)
    except SystemExit as stop:
        raise SystemExit(WRONG if stop.code else 0) from None
    try:
        phy = _bytes("the frame", arguments.frame)
        frame = parse(phy)
        lines = list(_lines(frame, _keys(arguments), _app_key(arguments), arguments.f_cnt))
    except MalformedFrame as malformed:
        return _refuse(f"cannot read this frame: {malformed}")
    except ValueError as unreadable:
        return _refuse(str(unreadable))
    for name, value in lines:
        print(f"{name:<12} {value}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m lns.lorawan",
        description="Decode one LoRaWAN 1.0.x frame. Keys are used, never printed.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("frame", help="the PHYPayload in hexadecimal")
    parser.add_argument("--nwk-s-key", metavar="HEX", help="check the MIC of a data frame")
    parser.add_argument("--app-s-key", metavar="HEX", help="and decrypt its payload")
    parser.add_argument("--app-key", metavar="HEX", help="check a join-request, open a join-accept")
    parser.add_argument(
        "--f-cnt", metavar="N", type=int, help="the 32-bit counter (default: as on the wire)"
    )
    return parser


def _refuse(why: str) -> int:
    print(f"error: {why}", file=sys.stderr)
    return WRONG


def _bytes(what: str, text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise ValueError(f"{what} is not hexadecimal: two digits per byte are needed") from None


def _key(option: str, text: str) -> bytes:
    key = _bytes(option, text)
    if len(key) != KEY_BYTES:
        raise ValueError(f"{option} needs {KEY_BYTES} bytes ({2 * KEY_BYTES} digits)")
    return key


def _keys(arguments: argparse.Namespace) -> SessionKeys | None:
    if arguments.nwk_s_key is None and arguments.app_s_key is None:
        return None
    if arguments.nwk_s_key is None or arguments.app_s_key is None:
        raise ValueError("--nwk-s-key and --app-s-key are needed together")
    return SessionKeys(
        _key("--nwk-s-key", arguments.nwk_s_key), _key("--app-s-key", arguments.app_s_key)
    )


def _app_key(arguments: argparse.Namespace) -> bytes | None:
    return None if arguments.app_key is None else _key("--app-key", arguments.app_key)


def _lines(
    frame: Frame, keys: SessionKeys | None, app_key: bytes | None, f_cnt: int | None
) -> Lines:
    match frame:
        case Data():
            yield from _data_lines(frame, keys, f_cnt)
        case JoinRequest():
            yield "type", "join-request"
            yield "join EUI", frame.join_eui
            yield "device EUI", frame.dev_eui
            yield "DevNonce", str(frame.dev_nonce)
            valid = None if app_key is None else frame.mic_is_valid(app_key)
            yield "MIC", _mic(frame.mic, valid, "--app-key")
        case JoinAccept():
            yield "type", "join-accept"
            yield from _join_accept_lines(frame, app_key)
        case RejoinRequest():
            yield "type", f"rejoin-request, type {frame.rejoin_type} (LoRaWAN 1.1)"
            yield "device EUI", frame.dev_eui
            yield "join EUI", frame.join_eui or "not sent"
            yield "NetID", frame.net_id or "not sent"
            yield "RJcount", str(frame.rj_count)
            yield "MIC", f"{_hex(frame.mic)} (not checked: LoRaWAN 1.1 is not supported)"
        case _:
            yield "type", "proprietary"
            yield "payload", _hex(frame.payload)


def _data_lines(frame: Data, keys: SessionKeys | None, f_cnt: int | None) -> Lines:
    counter = frame.f_cnt if f_cnt is None else f_cnt
    if counter & ~0xFFFFFFFF or counter & 0xFFFF != frame.f_cnt:
        raise ValueError(f"--f-cnt {f_cnt} does not end in the 16 bits on the wire, {frame.f_cnt}")
    valid = None if keys is None else frame.mic_is_valid(keys.nwk_s_key, counter)
    yield "type", _M_TYPE_NAMES[frame.m_type]
    yield "DevAddr", frame.dev_addr
    yield "FCnt", str(frame.f_cnt) if counter == frame.f_cnt else f"{frame.f_cnt}, full {counter}"
    yield "flags", ", ".join(_flags(frame)) or "none"
    yield "FOpts", _commands(frame, frame.f_opts) if frame.f_opts else "none"
    yield "FPort", "none" if frame.f_port is None else str(frame.f_port)
    if frame.f_port is not None:
        yield "payload", f"{_hex(frame.frm_payload)} (as on the air)"
    yield "MIC", _mic(frame.mic, valid, "--nwk-s-key and --app-s-key")
    if valid is False:
        yield "", "a wrong key, or the counter is above 65535: try --f-cnt"
    if keys is not None and valid and frame.f_port is not None:
        clear = frame.payload(keys, counter)
        yield "decrypted", _commands(frame, clear) if frame.f_port == 0 else _hex(clear)
    if frame.has_commands_twice:
        yield "warning", "MAC commands in FOpts and on FPort 0: the receiver discards this frame"
    yield "frame id", frame.frame_id


def _flags(frame: Data) -> Iterator[str]:
    if frame.adr:
        yield "ADR"
    if frame.adr_ack_req:
        yield "ADRACKReq" if frame.is_uplink else "RFU bit 6"
    if frame.ack:
        yield "ACK"
    if frame.f_pending:
        yield "class B" if frame.is_uplink else "FPending"


def _commands(frame: Data, data: bytes) -> str:
    read = parse_uplink if frame.is_uplink else parse_downlink
    spelled = [
        f"command {command.cid:02X} {command.body.hex().upper()}".rstrip()
        if isinstance(command, OtherCommand)
        else repr(command)
        for command in read(data)
    ]
    return f"{_hex(data)} = {', '.join(spelled) or 'no known MAC command'}"


def _join_accept_lines(frame: JoinAccept, app_key: bytes | None) -> Lines:
    if app_key is None:
        yield "encrypted", f"{_hex(frame.encrypted)} (give --app-key to open it)"
        return
    fields = open_join_accept(app_key, frame.to_bytes())
    yield "JoinNonce", str(fields.join_nonce)
    yield "NetID", fields.net_id
    yield "DevAddr", fields.dev_addr
    yield "RX1 offset", str(fields.dl_settings.rx1_dr_offset)
    yield "RX2 DR", str(fields.dl_settings.rx2_dr)
    yield "RX1 delay", f"{fields.receive_delay_us // 1_000_000} s"
    channels = cf_list_frequencies_hz(fields.cf_list)
    masks = cf_list_channel_masks(fields.cf_list)
    if channels:
        yield "channels", ", ".join(f"{freq_hz} Hz" for freq_hz in channels)
    elif masks:
        yield "masks", " ".join(f"{mask:04X}" for mask in masks)
    else:
        yield "CFList", _hex(fields.cf_list)
    yield "MIC", "valid"


def _mic(mic: bytes, valid: bool | None, option: str) -> str:
    if valid is None:
        return f"{_hex(mic)} (not checked: give {option})"
    return f"{_hex(mic)} ({'valid' if valid else 'WRONG for this key'})"


def _hex(data: bytes) -> str:
    return data.hex().upper() or "none"


if __name__ == "__main__":
    sys.exit(main())
