"""What does a station hear when it asks where its network server is?

A question is answered whatever it says: an unanswered one hangs a station for ever (Basics Station,
`/router-info`). `error` sends it away.
"""

import msgspec

from lns.lorawan.identifiers import Eui, eui_id6
from lns.station.messages import RouterInfoRequest, parse_up


def router_asked_for(message: str | bytes) -> Eui | None:
    """The station that asks; None if the question cannot be read."""
    if isinstance(message, bytes):
        return None
    request = parse_up(message)
    return request.router if isinstance(request, RouterInfoRequest) else None


def refusal_text(router: Eui | None, error: str) -> str:
    """The answer that names no server."""
    fields = {"error": error} if router is None else {"router": eui_id6(router), "error": error}
    return msgspec.json.encode(fields).decode()
