"""Would anybody notice a server that lets the wrong peers in, or too many of them?"""

from tests.mutants.mutant import Mutant

SUBSCRIPTION = "tests/lns/delivery/test_subscription.py"
COMPLAINTS = "tests/lns/test_complaints.py"
ACCESS = "tests/lns/server/test_access.py"
TLS = "tests/lns/server/test_station_server_tls.py"
CUPS = "tests/lns/server/test_cups_server.py"
PREPARED = "tests/lns/test_startup.py"
RUNNING = "tests/lns/test_running.py"

MUTANTS = (
    Mutant(
        "a certificate without a station's name good for all",
        "lns/server/access.py",
        "        if certificate.station is None:\n",
        "        if False:\n",
        noticed_by=ACCESS,
    ),
    Mutant(
        "a certificate good for another station",
        "lns/server/access.py",
        "            if shown.certificate.station != station:\n",
        "            if shown.certificate.name != station and len(shown.certificate.name) == 16:\n",
        noticed_by=ACCESS,
    ),
    Mutant(
        "a certificate that is not made for clients",
        "lns/server/access.py",
        "for_clients=ExtendedKeyUsageOID.CLIENT_AUTH in usages",
        "for_clients=True",
        noticed_by=CUPS,
    ),
    Mutant(
        "a certificate of two names",
        "lns/server/access.py",
        'str(names[0].value) if len(names) == 1 else ""',
        'str(names[0].value) if names else ""',
        noticed_by=TLS,
    ),
    Mutant(
        "half a handshake not counted",
        "lns/server/web_socket.py",
        "        self._plain.pause_reading()\n        self._doors.opened(self)\n",
        "        self._plain.pause_reading()\n",
        noticed_by=CUPS,
    ),
    Mutant(
        "a handshake without a deadline",
        "lns/server/web_socket.py",
        "            ssl_handshake_timeout=self._limits.handshake_us / _S,\n",
        "",
        noticed_by=TLS,
    ),
    Mutant(
        "a refused handshake not told",
        "lns/server/web_socket.py",
        "        if why and self._dropped_for != GOES_AWAY:\n",
        "        if self._dropped_for and self._dropped_for != GOES_AWAY:\n",
        noticed_by=TLS,
    ),
    Mutant(
        "the oldest of all goes first",
        "lns/server/web_socket.py",
        "            ((most, _),) = Counter(self._opening.values()).most_common(1)\n",
        "            most = next(iter(self._opening.values()))\n",
        noticed_by=TLS,
    ),
    Mutant(
        "certificates together with tokens",
        "lns/startup.py",
        "    if tls.client_ca is not None and tls.tokens is not None:\n",
        "    if False:\n",
        noticed_by=PREPARED,
    ),
    Mutant(
        "an MQTT packet of any size",
        "lns/delivery/mqtt_session.py",
        "        properties.MaximumPacketSize = self._packet_bytes_max\n",
        "",
        noticed_by=SUBSCRIPTION,
    ),
    Mutant(
        "a file that others can read not told",
        "lns/startup.py",
        '    "read": stat.S_IROTH,\n',
        '    "read": 0,\n',
        noticed_by=PREPARED,
    ),
    Mutant(
        "CUPS: a body of exactly the limit is refused",
        "lns/server/cups_server.py",
        "if head.body_bytes > BODY_BYTES_MAX:",
        "if head.body_bytes >= BODY_BYTES_MAX:",
        noticed_by=CUPS,
    ),
    Mutant(
        "CUPS: who was answered stays at the door",
        "lns/server/cups_server.py",
        "            self._doors.closed(visitor)\n",
        "",
        noticed_by=CUPS,
    ),
    Mutant(
        "CUPS: the URI of a station overwritten",
        "lns/running.py",
        "Category(setup.tc.uri or uri,",
        "Category(uri,",
        noticed_by=RUNNING,
    ),
    Mutant(
        "CUPS: names where it listens, not the public URI",
        "lns/running.py",
        "settings.lns.public_uri or listens_at",
        "listens_at",
        noticed_by=RUNNING,
    ),
    Mutant(
        "escape sequences in the log",
        "lns/complaints.py",
        "        return without_controls(super().format(record))\n",
        "        return super().format(record)\n",
        noticed_by=COMPLAINTS,
    ),
    Mutant(
        "a refused token without a challenge",
        "lns/server/station_server.py",
        '            response.headers["WWW-Authenticate"] = CHALLENGE\n',
        "            pass\n",
        noticed_by=TLS,
    ),
    Mutant(
        "a refused token without a challenge of CUPS",
        "lns/server/cups_server.py",
        "if status == HTTPStatus.UNAUTHORIZED else",
        "if False else",
        noticed_by=CUPS,
    ),
    Mutant(
        "CUPS closes with something unread",
        "lns/server/cups_server.py",
        "        while await reader.read(BODY_BYTES_MAX):\n            pass\n",
        "        await reader.read(BODY_BYTES_MAX)\n",
        noticed_by=CUPS,
    ),
    Mutant(
        "CUPS closes at once",
        "lns/server/cups_server.py",
        "        while await reader.read(BODY_BYTES_MAX):\n            pass\n",
        "",
        noticed_by=CUPS,
    ),
    Mutant(
        "as many files as whoever starts the server may open",
        "lns/running.py",
        "    _take_all_files_allowed()\n    recorder",
        "    recorder",
        noticed_by=RUNNING,
    ),
    Mutant(
        "the list of stations not for those with a token",
        "lns/server/access.py",
        "if self.stations is not None and station not in self.stations:",
        "if self.stations is not None and not self.tokens and station not in self.stations:",
        noticed_by=ACCESS,
    ),
    Mutant(
        "no token is one",
        "lns/server/access.py",
        "return bool(token) and hmac",
        "return hmac",
        noticed_by=ACCESS,
    ),
    Mutant(
        "a URI of 255 characters is too long",
        "lns/station/cups.py",
        "len(uri.encode()) > _URI_BYTES_MAX",
        "len(uri.encode()) >= _URI_BYTES_MAX",
        noticed_by="tests/lns/station/test_cups.py",
    ),
    Mutant(
        "credentials of 65535 bytes are too long",
        "lns/station/cups.py",
        "len(segment) > SEGMENT_BYTES_MAX",
        "len(segment) >= SEGMENT_BYTES_MAX",
        noticed_by="tests/lns/station/test_credentials.py",
    ),
    Mutant(
        "the last fingerprint of all is none",
        "lns/station/cups.py",
        "0 <= value <= _CRC_MAX",
        "0 <= value < _CRC_MAX",
        noticed_by="tests/lns/station/test_cups.py",
    ),
    Mutant(
        "of two headers of one name the first",
        "lns/server/cups_server.py",
        "for header in headers if header is not None}",
        "for header in reversed(headers) if header is not None}",
        noticed_by=CUPS,
    ),
    Mutant(
        "credentials that may not be read end the server in a traceback",
        "lns/startup.py",
        '    except OSError as error:\n        said = f"{error.filename} cannot',
        '    except ZeroDivisionError as error:\n        said = f"{error.filename} cannot',
        PREPARED,
    ),
    Mutant(
        "a file that may not be looked at is open to others",
        "lns/startup.py",
        "with suppress(OSError, ValueError):",
        "with suppress(ValueError):",
        PREPARED,
    ),
    Mutant(
        "a certificate that may not be read ends the server in a traceback",
        "lns/server/access.py",
        '        except OSError as error:\n            raise ValueError(f"{file} cannot',
        '        except ZeroDivisionError as error:\n            raise ValueError(f"{file} cannot',
        PREPARED,
    ),
)
