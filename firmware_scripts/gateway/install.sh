#!/bin/sh
# Installs Basics Station on Raspberry Pi OS: packages, SPI and I2C, the program, the service.
#
# Safe to run twice: what is as it should be stays untouched. configure.py does the rest.
set -eu

usage() {
    cat <<'TEXT'
usage: sudo sh install.sh [options]

  --user NAME      who runs the station and may configure it; the one who calls sudo if absent
  --home DIR       the station's folder; /opt/basicstation if absent
  --station FILE   a station program that is built already; otherwise it is built here
  --source DIR     where its source is, or is fetched to; /usr/local/src/basicstation if absent
  --root DIR       write below DIR instead of /; programs are called all the same
  --dry-run        only show what would be done

Building takes some ten minutes and fetches the source of release 2.0.6. Ends with 0 done or nothing
to do, 1 it did not work, 4 usage.

examples:
  sudo sh install.sh
  sudo sh install.sh --station /home/pi/station --user pi
  sh install.sh --dry-run
TEXT
}

wrong() {
    echo "install.sh: $1; --help shows examples" >&2
    exit 4
}

failed() {
    echo "install.sh: $1" >&2
    exit 1
}

run() {
    if [ "$dry_run" = yes ]; then
        echo "would run: $*"
    else
        "$@" || failed "this did not work: $*"
    fi
}

# put FILE MODE CONTENT: writes a file, unless it holds that already.
put() {
    target=$root$1
    mode=$2
    content=$3
    if [ -f "$target" ] && [ "$(cat "$target")" = "$content" ]; then
        echo "unchanged: $target"
        return
    fi
    if [ "$dry_run" = yes ]; then
        echo "would write: $target"
        return
    fi
    mkdir -p "$(dirname "$target")"
    printf '%s\n' "$content" >"$target.new"
    chmod "$mode" "$target.new"
    mv "$target.new" "$target"
    changed=yes
    echo "written: $target"
}

packages() {
    missing=
    for package in gpiod python3 git build-essential; do
        dpkg -s "$package" >/dev/null 2>&1 || missing="$missing $package"
    done
    if [ -z "$missing" ]; then
        echo "unchanged: packages"
        return
    fi
    # shellcheck disable=SC2086 # one word per package
    run apt-get install -y $missing
}

# Before anything is installed: on another machine none of it belongs.
raspberry_pi() {
    config=
    for file in "$root/boot/firmware/config.txt" "$root/boot/config.txt"; do
        if [ -f "$file" ]; then
            config=$file
            break
        fi
    done
    [ -n "$config" ] || failed "no config.txt in $root/boot: this is no Raspberry Pi OS"
    id "$user" >/dev/null 2>&1 || failed "there is no user $user; name one with --user"
}

# SPI for the concentrator; I2C for its temperature sensor, without which several do not start.
buses() {
    for line in dtparam=spi=on dtparam=i2c_arm=on; do
        if grep -qx "$line" "$config"; then
            echo "unchanged: $line"
        elif [ "$dry_run" = yes ]; then
            echo "would add to $config: $line"
        else
            printf '[all]\n%s\n' "$line" >>"$config"
            echo "added to $config: $line"
            reboot_needed=yes
        fi
    done
    put /etc/modules-load.d/lora-gateway.conf 644 i2c-dev
}

groups_of_user() {
    for group in spi gpio i2c dialout; do
        case " $(id -nG "$user") " in
            *" $group "*) echo "unchanged: $user is in $group" ;;
            *) run usermod -aG "$group" "$user" ;;
        esac
    done
}

build() {
    if [ ! -d "$root$source" ]; then
        run git clone --branch "$release" --depth 1 "$repository" "$root$source"
    fi
    # Release 2.0.6 knows 32 bits for this platform; the override lets a 64-bit system build it too.
    run make -C "$root$source" platform=corecell variant=std "ARCH.corecell=$(gcc -dumpmachine)"
    station=$root$source/build-corecell-std/bin/station
}

program() {
    target=$root$home/bin/station
    if [ -z "$station" ]; then
        if [ -x "$target" ]; then
            echo "unchanged: $target (it is there; --station FILE replaces it)"
            return
        fi
        build
    fi
    [ "$dry_run" = yes ] || [ -f "$station" ] || failed "$station is not there"
    if cmp -s "$station" "$target"; then
        echo "unchanged: $target"
        return
    fi
    run mkdir -p "$root$home/bin"
    run install -m 755 "$station" "$target"
    changed=yes
}

service() {
    unit=$(sed "s|@USER@|$user|g; s|@HOME@|$home|g" "$here/basicstation.service")
    put /etc/systemd/system/basicstation.service 644 "$unit"
    # The bench restarts, starts and stops it over ssh, without a password.
    rules=$(for verb in restart start stop; do
        echo "$user ALL=(root) NOPASSWD: /usr/bin/systemctl $verb basicstation"
    done)
    put /etc/sudoers.d/basicstation 440 "$rules"
    run systemctl daemon-reload
    run systemctl enable basicstation
}

root=
home=/opt/basicstation
user=${SUDO_USER:-pi}
station=
source=/usr/local/src/basicstation
repository=https://github.com/lorabasics/basicstation
release=v2.0.6
dry_run=no
changed=no
reboot_needed=no
here=$(cd "$(dirname "$0")" && pwd)

while [ $# -gt 0 ]; do
    case $1 in
        --help | -h)
            usage
            exit 0
            ;;
        --dry-run) dry_run=yes ;;
        --user | --home | --station | --source | --root)
            [ $# -ge 2 ] || wrong "$1 needs a value"
            case $1 in
                --user) user=$2 ;;
                --home) home=$2 ;;
                --station) station=$2 ;;
                --source) source=$2 ;;
                --root) root=${2%/} ;;
            esac
            shift
            ;;
        *) wrong "what is '$1'?" ;;
    esac
    shift
done
if [ "$dry_run" = no ] && [ -z "$root" ] && [ "$(id -u)" != 0 ]; then
    wrong "this changes the system: start it with sudo, or try --dry-run"
fi

raspberry_pi
packages
buses
groups_of_user
program
put "$home/reset_lgw.sh" 755 "$(cat "$here/reset_lgw.sh")"
run chown -R "$user" "$root$home"
service
if [ "$dry_run" = yes ]; then
    echo "nothing was changed (--dry-run)"
elif [ "$reboot_needed" = yes ]; then
    echo "restart the Pi now (sudo reboot), then run configure.py"
elif [ -f "$root$home/station.conf" ]; then
    [ "$changed" = no ] || run systemctl restart basicstation
    echo "installed"
else
    echo "installed; now run configure.py"
fi
