#!/bin/sh
# Installs the nightly run of the bench as a systemd service and timer. Safe to run twice.
set -eu

usage() {
    cat <<'TEXT'
usage: sudo sh install.sh --program FILE [options]

  --program FILE   lorabench, as it stands in its .venv/bin
  --bench FILE     the inventory; /etc/lorabench/bench.toml if absent
  --user NAME      who runs it; the one who calls sudo if absent
  --folder DIR     where the runs are written; /var/lib/lorabench if absent
  --time HH:MM     when it starts; 01:30 if absent
  --root DIR       write below DIR instead of /; programs are called all the same
  --dry-run        only show what would be done

Ends with 0 done or nothing to do, 1 it did not work, 4 usage.

examples:
  sudo sh install.sh --program /opt/lorabench/.venv/bin/lorabench
  sudo sh install.sh --program ~/lorabench/.venv/bin/lorabench --bench ~/lab.toml --time 23:00
  sh install.sh --program ~/lorabench/.venv/bin/lorabench --dry-run
TEXT
}

wrong() {
    echo "install.sh: $1; --help shows examples" >&2
    exit 4
}

run() {
    if [ "$dry_run" = yes ]; then
        echo "would run: $*"
    else
        "$@" || {
            echo "install.sh: this did not work: $*" >&2
            exit 1
        }
    fi
}

# Writes a unit with the values filled in, unless it is so already.
unit() {
    target=$root/etc/systemd/system/$1
    content=$(sed "s|@USER@|$user|g; s|@FOLDER@|$folder|g; s|@PROGRAM@|$program|g
        s|@BENCH@|$bench|g; s|@TIME@|$time|g" "$here/$1")
    if [ -f "$target" ] && [ "$(cat "$target")" = "$content" ]; then
        echo "unchanged: $target"
    elif [ "$dry_run" = yes ]; then
        echo "would write: $target"
    else
        mkdir -p "$(dirname "$target")"
        printf '%s\n' "$content" >"$target"
        echo "written: $target"
    fi
}

program=
bench=/etc/lorabench/bench.toml
user=${SUDO_USER:-}
folder=/var/lib/lorabench
time=01:30
root=
dry_run=no
here=$(cd "$(dirname "$0")" && pwd)

while [ $# -gt 0 ]; do
    case $1 in
        --help | -h)
            usage
            exit 0
            ;;
        --dry-run) dry_run=yes ;;
        --program | --bench | --user | --folder | --time | --root)
            [ $# -ge 2 ] || wrong "$1 needs a value"
            case $1 in
                --program) program=$2 ;;
                --bench) bench=$2 ;;
                --user) user=$2 ;;
                --folder) folder=$2 ;;
                --time) time=$2 ;;
                --root) root=${2%/} ;;
            esac
            shift
            ;;
        *) wrong "what is '$1'?" ;;
    esac
    shift
done
[ -n "$program" ] || wrong "say where lorabench is with --program"
[ -x "$program" ] || wrong "$program is no program; run 'make install' in its folder first"
[ -n "$user" ] || wrong "say who runs it with --user"
case $time in
    [01][0-9]:[0-5][0-9] | 2[0-3]:[0-5][0-9]) ;;
    *) wrong "--time is like 01:30" ;;
esac
for path in "$program" "$bench" "$folder"; do
    case $path in
        *[!A-Za-z0-9/._+-]*) wrong "'$path' has characters that a unit would misread" ;;
        /*) ;;
        *) wrong "'$path' is not an absolute path" ;;
    esac
done
if [ "$dry_run" = no ] && [ -z "$root" ] && [ "$(id -u)" != 0 ]; then
    wrong "this changes the system: start it with sudo, or try --dry-run"
fi

unit lorabench-nightly.service
unit lorabench-nightly.timer
# The runs are written into the one, the lock of the bench beside bench.toml.
for path in "$folder" "$(dirname "$bench")"; do
    if [ ! -d "$root$path" ]; then
        run mkdir -p "$root$path"
        run chown "$user" "$root$path"
    fi
done
run systemctl daemon-reload
run systemctl enable --now lorabench-nightly.timer
[ -r "$bench" ] || echo "note: $bench is not there yet; lorabench devices --discover helps to write it"
if [ "$dry_run" = yes ]; then
    echo "nothing was changed (--dry-run)"
else
    echo "every night at $time; try it now with: sudo systemctl start lorabench-nightly"
fi
