"""Under which keys does Redis hold what network servers share?

The braces put the keys of a device into one slot of a cluster, so that one script reaches them.
"""

from lns.lorawan.identifiers import DevAddr, Eui, Mic


def sessions_of(dev_eui: Eui) -> str:
    """JSON: the sessions of a device, newest first."""
    return f"lns:{{{dev_eui}}}:sessions"


def dev_nonces_of(dev_eui: Eui) -> str:
    """A hash: every DevNonce that was ever accepted, and the server that used it."""
    return f"lns:{{{dev_eui}}}:dev_nonces"


def join_nonce_of(dev_eui: Eui) -> str:
    """The newest JoinNonce that any server took for a device."""
    return f"lns:{{{dev_eui}}}:join_nonce"


def claim_of(dev_eui: Eui, dev_addr: DevAddr) -> str:
    """A hash that expires: how far a session came (`lns.dedup.life`), its `owner`, or `over`."""
    return f"lns:{{{dev_eui}}}:claim:{dev_addr}"


def frame_of(dev_eui: Eui, dev_addr: DevAddr, f_cnt: int, mic: Mic) -> str:
    """In which life a frame lies that was claimed; it expires after the retention."""
    return f"lns:{{{dev_eui}}}:frame:{dev_addr}:{f_cnt}:{mic}"


def keys_of(dev_eui: Eui) -> str:
    """A pattern: all that is known of a device by its DevEUI."""
    return f"lns:{{{dev_eui}}}:*"


def frames_of(dev_eui: Eui) -> str:
    """A pattern: all frames of a device that were claimed lately."""
    return f"lns:{{{dev_eui}}}:frame:*"


def f_cnt_down_of(dev_eui: Eui) -> str:
    """A hash: the next downlink counter by DevAddr, for as long as a session lives."""
    return f"lns:{{{dev_eui}}}:f_cnt_down"


def devices_with(dev_addr: DevAddr) -> str:
    """A set: the devices that a join gave this DevAddr."""
    return f"lns:dev_addr:{dev_addr}"
