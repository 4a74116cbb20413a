#!/bin/sh
# Points a RAK7268 or RAK7289 (WisGateOS) at the tap of the bench, by a person, and checks the result.
#
# The names of the settings inside WisGateOS differ with its version and are not documented, so this
# script writes nothing into the gateway: it prints what to enter, and then looks at its log.
set -eu

usage() {
    cat <<'TEXT'
usage: wisgate.sh steps TAP_URI [TRUST_FILE]
       wisgate.sh check SSH_HOST [--dry-run]

  steps    print what to enter in the web page of the gateway
  check    read clock and log of the gateway over ssh and say what they mean; changes nothing

Ends with 0 well, 1 not, 4 usage.

examples:
  sh wisgate.sh steps ws://192.168.10.5:6090
  sh wisgate.sh steps wss://192.168.10.5:6090 tc.trust
  sh wisgate.sh check root@192.168.10.12
TEXT
}

wrong() {
    echo "wisgate.sh: $1; --help shows examples" >&2
    exit 4
}

steps() {
    uri=$1
    trust=${2:-}
    scheme=${uri%%://*}
    rest=${uri#*://}
    rest=${rest%%/*}
    host=${rest%:*}
    port=${rest##*:}
    case $scheme in
        ws) authentication='No authentication' ;;
        wss) authentication='TLS server authentication' ;;
        *) wrong "a tap is ws://host:port or wss://host:port, not '$uri'" ;;
    esac
    case $port in
        "$rest" | '' | *[!0-9]*) wrong "'$uri' names no port" ;;
    esac
    cat <<TEXT
WisGateOS 2, web page of the gateway (by WLAN RAK7268_XXXX: http://192.168.230.1):
  1. LoRa -> Configuration: work mode "Basics station".
  2. Configure Basics Station server setup:
       Server type          LNS Server
       Server URL           $scheme://$host
       Port                 $port
       Authentication mode  $authentication
TEXT
    if [ "$scheme" = wss ]; then
        [ -n "$trust" ] || wrong "wss:// needs the file with the certificate of the authority, tc.trust"
        [ -r "$trust" ] || wrong "$trust cannot be read"
        echo "       Trust (CA)           the text below"
        cat "$trust"
    fi
    cat <<TEXT
  3. Save. Note the EUI of the page Overview (also on the label) for bench.toml.
  4. Time: make this host the NTP server. With a clock of 1970 no certificate is valid.
WisGateOS 1 (first RAK7268): LoRa Network -> Network Settings -> Mode: Basics Station -> Switch mode;
  URI $scheme://$host, port $port.
Then: sh wisgate.sh check root@<address of the gateway>
TEXT
}

# The lines of a station's log that tell how it is; what to do stands behind them.
judge() {
    # What it said before its latest start is over.
    awk '/Station Ver/ { said = "" } { said = said $0 "\n" } END { printf "%s", said }' "$1" >"$1.latest"
    log=$1.latest
    verdict=1
    while IFS='|' read -r kind text advice; do
        grep -qF "$text" "$log" || continue
        echo "$kind: $text${advice:+: $advice}"
    done <<'TEXT'
well|Station EUI|
well|Configuring for region|
well|Concentrator started|
bad|Concentrator start failed|concentrator not reset, or not connected
bad|ral_config failed|channel plan or device path refused
bad|Radio device|another station or packet forwarder runs
bad|No TC URI configured|step 2 was not saved
bad|Bad TC URI|step 2: URL or port
bad|TLS server certificate verification failed|tc.trust, host name, or the clock of the gateway
bad|Infos error|the network server does not know this EUI
bad|Unsupported hwspec|router_config of the network server
bad|before 'router_config'|a mistake of the network server: keep its log
bad|Cannot convert xtime|send one uplink anew: the radio has started again since
bad|missed TX time|the answer came too late: network or server too slow
bad|too late for RX2 by|the answer came too late: network or server too slow
bad|no DC in band|duty cycle; nodc is not active here
bad|Feature not supported in production level code|this build takes no nodc
TEXT
    if grep -qF 'Concentrator started' "$log" && ! grep -qF 'Concentrator start failed' "$log"; then
        verdict=0
    fi
    return $verdict
}

check() {
    host=$1
    if [ "$dry_run" = yes ]; then
        echo "would run: ssh $host date -u +%s"
        echo "would run: ssh $host logread"
        return 0
    fi
    there=$(ssh "$host" date -u +%s) || {
        echo "wisgate.sh: ssh $host does not work; is ssh enabled, the key installed?" >&2
        return 1
    }
    apart=$(($(date -u +%s) - there))
    apart=${apart#-}
    if [ "$apart" -gt 2 ]; then
        echo "bad: its clock is $apart s off: make this host its NTP server"
    else
        echo "well: clock"
    fi
    log=$(mktemp)
    trap 'rm -f "$log" "$log.latest"' EXIT
    ssh "$host" logread >"$log" || {
        echo "wisgate.sh: logread does not work on $host" >&2
        return 1
    }
    if judge "$log" && [ "$apart" -le 2 ]; then
        return 0
    fi
    echo "wisgate.sh: not ready: 'Concentrator started' and a right clock are needed" >&2
    return 1
}

dry_run=no
[ $# -gt 0 ] || wrong "say steps or check"
verb=$1
shift
case $verb in
    --help | -h) usage ;;
    steps)
        case $# in
            1 | 2) ;;
            *) wrong "steps needs the URI of the tap" ;;
        esac
        steps "$@"
        ;;
    check)
        [ "${2:-}" != --dry-run ] || dry_run=yes
        [ $# -ge 1 ] || wrong "check needs the gateway, root@address"
        check "$1"
        ;;
    *) wrong "what is '$verb'?" ;;
esac
