"""Who is told how a night went, besides the person at the console?

A broker, on a topic of the bench, and a web hook. Neither can change how the night went: whatever
goes wrong here is a line for the person who reads the log. URLs may hold passwords or tokens; of
them nothing but scheme and host is ever shown.
"""

import asyncio
import base64
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from bench.lab.inventory.entries import ReportTo
from lns.delivery.mqtt_session import BrokerLost, broker, post
from lns.server.address import without_login

LIMIT_US = 10_000_000


def topic(bench: str) -> str:
    """Where a broker has the summaries of a bench."""
    return f"lorabench/{bench}/night"


def publish(
    report_to: ReportTo, bench: str, summary: Mapping[str, object], *, limit_us: int = LIMIT_US
) -> list[str]:
    """Tell everybody who is to be told; a line on each."""
    body = json.dumps(summary, ensure_ascii=False).encode()
    lines = []
    if report_to.mqtt is not None:
        lines.append(_publish(report_to.mqtt, topic(bench), body, limit_us))
    if report_to.webhook is not None:
        lines.append(_post(report_to.webhook, body, limit_us))
    return lines


def _publish(url: str, where: str, body: bytes, limit_us: int) -> str:
    async def posted() -> None:
        async with asyncio.timeout(limit_us / 1_000_000):
            await post(broker(url), where, body)

    try:
        asyncio.run(posted())
    except (BrokerLost, TimeoutError, ValueError, OSError) as error:
        why = str(error) or "no answer in time"
        return f"The summary was not published to {_shown(url)}: {why}."
    return f"The summary is published to {_shown(url)}, topic {where}."


def _post(url: str, body: bytes, limit_us: int) -> str:
    request = urllib.request.Request(
        without_login(url), data=body, headers=_headers(url), method="POST"
    )
    try:
        with urllib.request.urlopen(request, timeout=limit_us / 1_000_000):
            return f"The summary is posted to {_shown(url)}."
    except urllib.error.HTTPError as error:
        error.close()
        why = f"it answers {error.code} {error.reason}"
    except (OSError, ValueError) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        why = str(reason) or "no answer in time"
    return f"The summary was not posted to {_shown(url)}: {why}."


def _headers(url: str) -> dict[str, str]:
    """What a web hook is told besides: the login of its URL, which is no part of an address."""
    headers = {"Content-Type": "application/json"}
    parts = urlsplit(url)
    if parts.username is not None:
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"
    return headers


def _shown(url: str) -> str:
    """Scheme and host of a URL, and its port: neither login nor path, which may be secret."""
    parts = urlsplit(url)
    host = parts.hostname or "?"
    port = f":{parts.port}" if parts.port is not None else ""
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{port}"
