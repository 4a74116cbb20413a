#!/bin/sh
# Resets the concentrator of a gateway: 0, 1, 0 on its reset line, 100 ms each.
#
# It has to be done before every start of the station, or the concentrator does not answer.
set -eu

usage() {
    cat <<'TEXT'
usage: reset_lgw.sh start|stop [options]

  start            switch the board on (where it has a line for that) and reset it
  stop             reset it, so that it is silent
  --reset N        GPIO line (BCM number) of the reset
  --power N        GPIO line that switches the board on, or selects SPI
  --level 0|1      what switches it on; 1 if absent
  --chip NAME      gpiochip; that of the Raspberry Pi's header if absent
  --dry-run        only show what would be done

What is not given is read from board.env beside this script (RESET_GPIO, POWER_GPIO, POWER_LEVEL,
GPIO_CHIP), which configure.py writes. Ends with 0 done, 1 it did not work, 4 usage.

examples:
  reset_lgw.sh start --reset 17                  # RAK2287, RAK5146
  reset_lgw.sh start --reset 23 --power 18       # Semtech CoreCell
  reset_lgw.sh start --reset 17 --dry-run
TEXT
}

wrong() {
    echo "reset_lgw.sh: $1; --help shows examples" >&2
    exit 4
}

failed() {
    echo "reset_lgw.sh: $1" >&2
    exit 1
}

number() {
    case $2 in
        '' | *[!0-9]*) wrong "$1 is a number, not '$2'" ;;
    esac
}

# The label of the chip that the 40-pin header hangs on; its number has changed with kernels.
header_chip() {
    gpiodetect | sed -n 's/^\(gpiochip[0-9]*\) \[pinctrl-\(bcm2835\|bcm2711\|rp1\)\].*/\1/p' | head -n 1
}

# Holds a line at a level for 100 ms. libgpiod 1 and 2 want it said in different ways.
hold() {
    case $major in
        1) set -- gpioset -m time -u 100000 "$chip" "$1=$2" ;;
        *) set -- gpioset -c "$chip" -p 100ms -t 0 "$1=$2" ;;
    esac
    if [ "$dry_run" = yes ]; then
        echo "would run: $*"
    else
        "$@" || failed "gpioset failed; is this user in the group gpio, and the line free (gpioinfo)?"
    fi
}

verb=
dry_run=no
env_file=$(dirname "$0")/board.env
# shellcheck disable=SC1090
[ ! -r "$env_file" ] || . "$env_file"
reset=${RESET_GPIO:-}
power=${POWER_GPIO:-}
level=${POWER_LEVEL:-1}
chip=${GPIO_CHIP:-}

while [ $# -gt 0 ]; do
    case $1 in
        --help | -h)
            usage
            exit 0
            ;;
        --dry-run) dry_run=yes ;;
        --reset | --power | --level | --chip)
            [ $# -ge 2 ] || wrong "$1 needs a value"
            case $1 in
                --reset) reset=$2 ;;
                --power) power=$2 ;;
                --level) level=$2 ;;
                --chip) chip=$2 ;;
            esac
            shift
            ;;
        start | stop) verb=$1 ;;
        *) wrong "what is '$1'?" ;;
    esac
    shift
done
[ -n "$verb" ] || wrong "say start or stop"
if [ -z "$reset" ]; then
    echo "this board has no reset line; nothing to do"
    exit 0
fi
number --reset "$reset"
[ -z "$power" ] || number --power "$power"
case $level in
    0 | 1) ;;
    *) wrong "--level is 0 or 1" ;;
esac

command -v gpioset >/dev/null || failed "gpioset is not there; sudo apt-get install gpiod"
version=$(gpioset --version | sed -n '1s/.*v\([0-9][0-9.]*\).*/\1/p')
major=${version%%.*}
[ -n "$major" ] || failed "gpioset --version says nothing known"
[ -n "$chip" ] || chip=$(header_chip)
[ -n "$chip" ] || failed "no GPIO chip of a Raspberry Pi's header; name one with --chip (gpiodetect)"

if [ "$verb" = start ] && [ -n "$power" ]; then
    hold "$power" "$level"
fi
for value in 0 1 0; do
    hold "$reset" "$value"
done
if [ "$dry_run" = no ]; then
    echo "concentrator was reset: $chip line $reset, libgpiod $version"
fi
