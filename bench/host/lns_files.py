"""What stands in the files of a network server: its tables of TOML, its devices, and certificates?

Those are of a throw-away authority on P-256, which nobody outside of a bench need trust; a station
has files of it, too. Basics Station compares host names with DNS names only, so an address is a DNS
name in a server certificate here, besides the IP name that everybody else looks for; its keys are
SEC1, the only form of a P-256 key that it takes from CUPS. Source: Basics Station, credentials.
trustme cannot make them: to it an address is an IP name only, and every certificate is good for
clients and servers.
"""

import ipaddress
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from msgspec.structs import asdict

from lns.clock import Utc, utc_of_this_host
from lns.config import JOIN_NONCE_MIN_MAX
from lns.dedup.session import AS_REGION_SAYS
from lns.lorawan.identifiers import Eui
from lns.server.access import TOKEN
from lns.server.address import file_uri
from lns.uplink.registry import Activation, EndDevice

_ALREADY = timedelta(days=1)
_COMMON_NAME_MAX = 64
CATEGORIES = ("tc", "cups")
CLIENT, SERVER = ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes = field(repr=False)

    def write(self, folder: Path, name: str) -> None:
        """Leave `<name>.crt` and `<name>.key` in a folder, the key readable by its owner only."""
        (folder / f"{name}.crt").write_bytes(self.certificate)
        write_secret(folder / f"{name}.key", self.key)


class Authority:
    """A certificate authority that lives as long as this object; its key is never written.

    But for who asks for it (`itself`).
    """

    def __init__(
        self, name: str = "bench", *, days: int = 365, utc: Utc = utc_of_this_host
    ) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _subject(f"{name} CA")
        self._begin = utc() - _ALREADY
        self._end = utc() + timedelta(days=days)
        key_id = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        self._key_id = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(key_id)
        builder = self._builder(self._name, self._key.public_key(), self._end)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        builder = builder.add_extension(_usage(sign=False), True).add_extension(key_id, False)
        self.certificate = builder.sign(self._key, SHA256()).public_bytes(Encoding.PEM)

    def server(self, *hosts: str) -> Pair:
        """A certificate for a server that is found under these names and addresses."""
        names: list[x509.GeneralName] = [x509.DNSName(host) for host in hosts]
        names += [x509.IPAddress(address) for host in hosts if (address := _address(host))]
        # A common name has 64 characters at most; nobody reads it where there are DNS names.
        name = hosts[0][:_COMMON_NAME_MAX]
        return self.issue([name], usages=[SERVER], alternatives=x509.SubjectAlternativeName(names))

    def itself(self) -> Pair:
        """Its own certificate, for whoever vouches for himself."""
        return Pair(self.certificate, _sec1(self._key))

    def client(self, station: Eui) -> Pair:
        return self.issue([station], usages=[CLIENT])

    def issue(
        self,
        common_names: Sequence[str],
        *,
        usages: Sequence[x509.ObjectIdentifier],
        alternatives: x509.SubjectAlternativeName | None = None,
        begins_in: timedelta = -_ALREADY,
        ends_in: timedelta | None = None,
    ) -> Pair:
        """A certificate of any kind, also of one that a server has to refuse.

        No `usages`: it does not say what it is for. `begins_in` and `ends_in` count from now; the
        end may be in the past by less than a day, and is the authority's if None.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        end = self._end if ends_in is None else self._begin + _ALREADY + ends_in
        builder = self._builder(_subject(*common_names), key.public_key(), end, begins_in)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
        builder = builder.add_extension(_usage(sign=True), True)
        if usages:
            builder = builder.add_extension(x509.ExtendedKeyUsage(usages), False)
        builder = builder.add_extension(self._key_id, False)
        if alternatives is not None:
            builder = builder.add_extension(alternatives, False)
        certificate = builder.sign(self._key, SHA256()).public_bytes(Encoding.PEM)
        return Pair(certificate, _sec1(key))

    def _builder(
        self,
        subject: x509.Name,
        public_key: ec.EllipticCurvePublicKey,
        end: datetime,
        begins_in: timedelta = -_ALREADY,
    ) -> x509.CertificateBuilder:
        return x509.CertificateBuilder(
            issuer_name=self._name,
            subject_name=subject,
            public_key=public_key,
            serial_number=x509.random_serial_number(),
            not_valid_before=self._begin + _ALREADY + begins_in,
            not_valid_after=end,
        )


def _sec1(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())


@cache
def any_authority() -> Authority:
    """One for all who do not care which; it lives as long as this process."""
    return Authority()


def write_server_files(folder: Path, authority: Authority, *hosts: str) -> None:
    """What `[tls]` names: `server.crt`, `server.key` and `stations-ca.crt`."""
    folder.mkdir(parents=True, exist_ok=True)
    authority.server(*hosts).write(folder, "server")
    (folder / "stations-ca.crt").write_bytes(authority.certificate)


def write_station_files(
    folder: Path,
    category: str,
    uri: str,
    *,
    trust: bytes | None = None,
    client: Pair | None = None,
    token: str | None = None,
) -> None:
    """The files of one category ("tc" or "cups") in a station's home.

    `uri` has a port and no path. No `trust` (PEM): no TLS. With `client` a station shows a
    certificate, with `token` an `Authorization` header; not both. ValueError for what a station
    does not take. Files of an earlier setup are removed.
    """
    if category not in CATEGORIES:
        raise ValueError(f"a station has {' and '.join(CATEGORIES)} files, not {category}")
    if client is not None and token is not None:
        raise ValueError("a station shows a certificate or a token, not both")
    if trust is None and not (client is None and token is None):
        raise ValueError("without .trust a station shows nothing")
    if token is not None and not TOKEN.fullmatch(token):
        raise ValueError("a token is one line of text")
    file_uri(uri, category)
    folder.mkdir(parents=True, exist_ok=True)
    for suffix in ("trust", "crt", "key"):
        (folder / f"{category}.{suffix}").unlink(missing_ok=True)
    (folder / f"{category}.uri").write_text(uri, encoding="ascii")
    if trust is not None:
        (folder / f"{category}.trust").write_bytes(trust)
    if client is not None:
        client.write(folder, category)
    if token is not None:
        header = f"Authorization: {token}\r\n".encode("ascii")
        write_secret(folder / f"{category}.key", header)


def write_secret(file: Path, content: bytes) -> None:
    """A new file for its owner only: one that was there could be open to others, and stay so."""
    file.unlink(missing_ok=True)
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
        stream.write(content)


def _subject(*common_names: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name) for name in common_names])


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _usage(*, sign: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=sign,
        key_cert_sign=not sign,
        crl_sign=not sign,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def toml_text(tables: Mapping[str, object]) -> str:
    """The TOML of named tables: a mapping is a table, a sequence of mappings an array of tables.

    Values are text, whole numbers, fractions, truth values and lists of them; None is left out.
    TypeError for anything else. What a person pastes behind other tables has to be `[[device]]`:
    tomli-w writes short tables as one value, `device = [{…}]`.
    """
    parts = []
    for name, table in tables.items():
        if isinstance(table, Mapping):
            parts.append(f"[{_key(name)}]\n{_pairs(table)}")
        elif isinstance(table, Sequence) and not isinstance(table, str):
            rows = [f"[[{_key(name)}]]\n{_pairs(row)}" for row in table]
            # An array without tables must be told too.
            parts += rows or [f"{_key(name)} = []\n"]
        else:
            raise TypeError(f"{name} is no table: {type(table).__name__}")
    return "\n".join(sorted(parts, key=lambda part: part.startswith("[")))


def _pairs(table: Mapping[str, object]) -> str:
    return "".join(
        f"{_key(key)} = {_value(value)}\n" for key, value in table.items() if value is not None
    )


def _key(key: str) -> str:
    bare = key.isascii() and key.replace("_", "").replace("-", "").isalnum()
    return key if bare else _value(key)


def _value(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str():
            # A JSON text is a TOML text, but for one character.
            return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007F")
        case list() | tuple():
            return f"[{', '.join(map(_value, value))}]"
        case _:
            raise TypeError(f"TOML has no {type(value).__name__}")


_FACTS = (
    "lorawan",
    "strategy",
    "server",
    "relaxed_f_cnt",
    "f_cnt_bits",
    "nb_trans",
    "dev_status_s",
    "join_nonce_min",
)
_USUAL = {field.name: field.default for field in fields(EndDevice)}
"""What a table need not say: the server takes it so."""
_ABP_ONLY = frozenset({"relaxed_f_cnt"})
_OTAA_ONLY = frozenset({"join_nonce_min"})


def device_tables(devices: Iterable[EndDevice]) -> list[dict[str, Any]]:
    """The `[[device]]` tables of devices.toml, keys in hexadecimal."""
    return [_table(device) for device in devices]


def _table(device: EndDevice) -> dict[str, Any]:
    table: dict[str, Any] = {
        "name": f"{device.name}-{device.dev_eui}",
        "dev_eui": str(device.dev_eui),
        "activation": device.activation.value,
        "class": device.device_class.value,
    }
    if device.activation is Activation.OTAA:
        assert device.app_key is not None
        table |= {"join_eui": str(device.join_eui), "app_key": device.app_key.hex().upper()}
    else:
        assert device.session_keys is not None
        table["dev_addr"] = str(device.dev_addr)
        for name in ("nwk_s_key", "app_s_key"):
            table[name] = getattr(device.session_keys, name).hex().upper()
    for name in _FACTS:
        value = getattr(device, name)
        others = _ABP_ONLY if device.activation is Activation.OTAA else _OTAA_ONLY
        if value == _USUAL[name] or name in others:
            continue
        table[name] = getattr(value, "value", value)
    if "join_nonce_min" in table:
        table["join_nonce_min"] = min(device.join_nonce_min, JOIN_NONCE_MIN_MAX)
    if device.activation is Activation.OTAA:
        usual = asdict(AS_REGION_SAYS)
        settings = asdict(device.listening).items()
        table |= {name: value for name, value in settings if value != usual[name]}
        if device.more_channels_hz:
            table["more_channels_hz"] = list(device.more_channels_hz)
    return table
