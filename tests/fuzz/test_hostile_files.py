"""Fuzz target: certificates' names, gzip files, names of captures and what a terminal obeys.

Whatever a peer shows or a file holds is read, or refused in words; nothing else is raised.
"""

import gzip
import re
import tempfile
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given
from hypothesis import strategies as st

from bench.host.lns_files import CLIENT, Authority
from bench.spark.cut import literal
from bench.traffic import read
from bench.traffic.recording import TrafficError
from lns.complaints import without_controls
from lns.lorawan.identifiers import Eui, eui, eui_dashed, eui_id6
from lns.server.access import Access, Certificate, Shown, read_certificate
from tests.bench.traffic.traffic_files import CONFORMANCE, SAINT_EYNARD
from tests.fuzz.mutation import mutated

WEST, EAST = Eui("0016C001F1500001"), Eui("0016C001F1500002")
CERTIFICATES = Access(certificates=True)
SPELLED = [spell(one).encode() for one in (WEST, EAST) for spell in (str, eui_dashed, eui_id6)]
DER = [
    x509.load_pem_x509_certificate(pair.certificate).public_bytes(Encoding.DER)
    for authority in [Authority()]
    for pair in (
        authority.client(WEST),
        authority.issue(["gateway-7"], usages=[CLIENT]),
        authority.issue([], usages=[]),
        authority.server("127.0.0.1"),
    )
]
PACKED = [gzip.compress(file.read_bytes()[:4000]) for file in (CONFORMANCE, SAINT_EYNARD)]
BYTES_MAX = 20_000
NAMES = st.text(st.sampled_from("ab{}[]*?\\,^-!/ %+:\n\x1b"), max_size=20)


@given(mutated(SPELLED).map(lambda name: name.decode("latin-1")) | st.text(max_size=40))
def test_a_name_opens_the_station_that_it_spells_and_no_other(name: str) -> None:
    shown = Shown(certificate=Certificate(name, for_clients=True))
    for station in (WEST, EAST):
        try:
            spelled = eui(name.strip(" "))
        except ValueError:
            spelled = None
        assert (CERTIFICATES.refusal(station, shown) is None) == (spelled == station)


@given(mutated(DER) | st.binary(max_size=200))
def test_any_bytes_are_a_certificate_or_one_that_opens_nothing(der: bytes) -> None:
    certificate = read_certificate(der)
    shown = Shown(certificate=certificate)
    refused = CERTIFICATES.refusal(EAST, shown)
    assert refused is not None or (certificate.for_clients and certificate.station == EAST)


@given(mutated(PACKED) | st.binary(max_size=400).map(lambda data: b"\x1f\x8b" + data))
def test_any_gzip_file_is_traffic_or_refused_in_words(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.gz"
        path.write_bytes(data)
        try:
            found = read(path, bytes_max=BYTES_MAX)
        except TrafficError as refused:
            assert str(refused).startswith("a.gz: ")
        else:
            assert found.logs


@given(st.integers(1, 40), st.integers(0, 1 << 20))
def test_what_unpacks_to_more_than_the_limit_is_refused(times: int, size: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.gz"
        path.write_bytes(gzip.compress(bytes(size), 1) * times)
        try:
            read(path, bytes_max=BYTES_MAX)
        except TrafficError as refused:
            over = "more than" in str(refused)
            assert over == (times * size > BYTES_MAX)


@given(NAMES | st.text(max_size=40))
def test_a_path_for_spark_has_no_pattern_and_names_the_same_file(path: str) -> None:
    spelled = literal(path)
    # As Hadoop reads it: a backslash takes the meaning from what follows.
    assert re.sub(r"\\(.)", r"\1", spelled, flags=re.DOTALL) == path
    assert not set(re.sub(r"\\.", "", spelled, flags=re.DOTALL)) & set("{}[]*?\\")


@given(st.text(max_size=60) | NAMES)
def test_no_text_moves_a_cursor(text: str) -> None:
    shown = without_controls(text)
    assert all(char.isprintable() or char in "\n\t" or ord(char) > 0x9F for char in shown)
    shown.encode()
    assert without_controls(shown) == shown
