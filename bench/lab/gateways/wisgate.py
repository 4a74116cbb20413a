"""How is a WisGate configured to connect to the tap?

By its own pages: what its settings are called in files differs with the version of WisGateOS. So
a person is told what to click, with the values of this bench.
"""

from bench.lab.gateways.basicstation_files import gateway_files
from bench.lab.inventory.entries import GatewayEntry, Inventory
from lns.server.address import host_and_port

_AUTHENTICATION = {
    frozenset[str](): "No authentication",
    frozenset({"tc.trust"}): "TLS server authentication",
    frozenset({"tc.trust", "tc.crt", "tc.key"}): "TLS server and client authentication",
    frozenset({"tc.trust", "tc.key"}): "TLS server authentication and client token",
}


def wisgate_steps(inventory: Inventory, gateway: GatewayEntry) -> list[str]:
    """What to do in the pages of a WisGate, in order; CannotConfigure. No secret is in it."""
    files = {file.name: file for file in gateway_files(inventory, gateway).there}
    uri = files["tc.uri"].content.decode().strip()
    scheme, _, address = uri.partition("://")
    host, port = host_and_port(address)
    shown = frozenset(files) - {"tc.uri"}
    way = _AUTHENTICATION.get(shown, f"the one for {', '.join(sorted(shown))}")
    steps = [
        f"compare the EUI on its Overview page or on its label with {gateway.eui}",
        "open LoRa -> Configuration and choose the work mode `Basics station`",
        "open Configure Basics Station server setup and choose the server type `LNS Server`",
        f"Server URL: {scheme}://{host}, port: {port}",
        f"Authentication mode: {way}",
    ]
    folder = gateway.credentials
    if "tc.trust" in files:
        steps.append(f"Trust (CA): the content of {folder}/tc.trust")
    if "tc.crt" in files:
        steps.append(f"client certificate and key: the content of {folder}/tc.crt and tc.key")
    elif "tc.key" in files:
        steps.append(
            f"client token: the content of {folder}/tc.key; WisGateOS 2 takes it with or without"
            " `Authorization:`, WisGateOS 1 only with it"
        )
    steps += [
        "save; WisGateOS 1 has the same under LoRa Network -> Network Settings -> Mode",
        "let its NTP server be the host of the bench: TLS fails while its clock is wrong",
    ]
    return steps
