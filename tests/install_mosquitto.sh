#!/usr/bin/env bash
# Installs Mosquitto, the MQTT broker that the tests and the emulated rig start for themselves, where it is missing.
#   MOSQUITTO   the program, if it stands somewhere unusual; then nothing is installed
# They bring their own configuration and a port of their own: the service of the package is
# neither started nor enabled. A Mosquitto that is there already is left as it is.
set -euo pipefail

export PATH="$PATH:/usr/local/sbin:/usr/sbin"

if command -v "${MOSQUITTO:-mosquitto}" >/dev/null; then
    exit 0
fi

refuse() {
    cat >&2 <<SAID
The tests and the emulated rig need Mosquitto, an MQTT broker. It is missing, and cannot be installed from here:
$1
Install it yourself, then run the same make target again:
    Debian, Ubuntu   sudo apt-get install --no-install-recommends mosquitto
    Fedora           sudo dnf install mosquitto
    Arch             sudo pacman -S mosquitto
    Alpine           sudo apk add mosquitto
If it stands in an unusual place: make MOSQUITTO=/path/to/mosquitto <target>
SAID
    exit 4
}

[ -z "${MOSQUITTO:-}" ] || refuse "MOSQUITTO names '$MOSQUITTO', and there is no such program."
command -v apt-get >/dev/null || refuse "this system has no apt-get, the only installer that is known here."

as_root=()
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || refuse "you are not root, and there is no sudo."
    as_root=(sudo)
    if ! sudo -n true 2>/dev/null; then
        [ -t 0 ] || refuse "sudo asks for a password, and there is no terminal to ask on."
        echo "Mosquitto is missing; sudo will ask for your password to install it."
    fi
fi

echo "Installing Mosquitto from this system's packages (about 1 MB; its service stays off) ..."

# Debian starts services when it installs them, unless policy-rc.d says 101 (invoke-rc.d(8)).
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap '"${as_root[@]}" rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
    "${as_root[@]}" chmod 755 "$policy"
fi

log=$(mktemp)
apt() {
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get -y -q -o DPkg::Lock::Timeout=300 -o Acquire::Retries=5 "$@" >>"$log" 2>&1
}
# The lists of packages may be missing (containers) or old.
if ! apt install --no-install-recommends mosquitto; then
    apt update || true
    if ! apt install --no-install-recommends mosquitto; then
        refuse "apt-get says: $(grep -E '^(E|W):' "$log" | tail -n 3 || tail -n 3 "$log")"
    fi
fi
rm -f "$log"

if command -v systemctl >/dev/null; then
    "${as_root[@]}" systemctl disable --quiet mosquitto >/dev/null 2>&1 || true
elif command -v update-rc.d >/dev/null; then
    "${as_root[@]}" update-rc.d mosquitto disable >/dev/null 2>&1 || true
fi

command -v mosquitto >/dev/null || refuse "the package was installed, but there is no program mosquitto."
echo "Mosquitto is ready: $(command -v mosquitto)"
