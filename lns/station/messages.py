"""The messages of the LNS protocol, both ways: values, readers that never raise, spellings.

Source: Basics Station, LNS protocol, version 2.
"""

from lns.station.down_messages import (
    Dnmsg,
    DownMessage,
    GetXtime,
    RouterConfig,
    RouterInfoAnswer,
    TimesyncAnswer,
    parse_down,
)
from lns.station.json_fields import Malformed, is_reception
from lns.station.spelling import (
    dnmsg_text,
    dntxed_text,
    frame_text,
    getxtime_text,
    jreq_text,
    propdf_text,
    router_info_answer_text,
    router_info_text,
    timesync_answer_text,
    updf_text,
    version_text,
    xtime_report_text,
)
from lns.station.up_messages import (
    Dntxed,
    Ignored,
    Jreq,
    Propdf,
    RouterInfoRequest,
    Timesync,
    Updf,
    UpInfo,
    UpMessage,
    Version,
    XtimeReport,
    parse_up,
)

__all__ = [
    "Dnmsg",
    "Dntxed",
    "DownMessage",
    "GetXtime",
    "Ignored",
    "Jreq",
    "Malformed",
    "Propdf",
    "RouterConfig",
    "RouterInfoAnswer",
    "RouterInfoRequest",
    "Timesync",
    "TimesyncAnswer",
    "UpInfo",
    "UpMessage",
    "Updf",
    "Version",
    "XtimeReport",
    "dnmsg_text",
    "dntxed_text",
    "frame_text",
    "getxtime_text",
    "is_reception",
    "jreq_text",
    "parse_down",
    "parse_up",
    "propdf_text",
    "router_info_answer_text",
    "router_info_text",
    "timesync_answer_text",
    "updf_text",
    "version_text",
    "xtime_report_text",
]
