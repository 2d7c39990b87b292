#!/usr/bin/env bash
# Tries the Debian package of the gateway, as root: packaging/gateway/try_deb.sh PROGRAM [ROOT.tar]
#
# It makes two packages of PROGRAM, of which the second counts as newer, and looks at them with lintian and systemd-analyze.
# Then each lives once, from installation to purge, in a fresh Debian of its own, with a network of its own: first in a chroot,
# where there is no systemd and the daemon is started by hand, and then in a container that systemd boots. ROOT.tar is a
# Debian that `mmdebstrap` made as below; without it one is made. Needs lintian, mmdebstrap, systemd-container and binutils.
# NO_BOOT=1 leaves the container out where there can be none.
set -euo pipefail
program=$(realpath "$1")
base=${2:+$(realpath "$2")}
here=$(cd "$(dirname "$0")" && pwd)
for needed in lintian mmdebstrap systemd-analyze ${NO_BOOT:-systemd-nspawn}; do
    [ "$needed" = 1 ] || command -v "$needed" > /dev/null || { echo >&2 "$needed is missing: apt install lintian mmdebstrap systemd-container"; exit 1; }
done
[ "$(id -u)" = 0 ] || { echo >&2 "this needs root"; exit 1; }

work=$(mktemp -d)
container=
end() {
    [ -z "$container" ] || kill "$container" 2> /dev/null || true
    [ -z "$container" ] || wait "$container" || true
    rm -rf --one-file-system "$work"
}
trap end EXIT
chmod 755 "$work"

echo "== packages"
for revision in 1 2; do "$here/make_deb.sh" "$program" "$work/packages" "$revision" > /dev/null; done
first=$(ls "$work"/packages/*-1_*.deb) second=$(ls "$work"/packages/*-2_*.deb)
stat -c "%s B %n" "$first" "$second" | sed "s|$work/packages/||"
for package in "$first" "$second"; do
    # What is overridden, with its reason, stands in make_deb.sh.
    lintian --allow-root --pedantic --display-info --fail-on error,warning "$package"
    # Crates by two ways: those that cargo knows, and those that the compiler named in the program.
    file=./usr/share/doc/tidegate-gateway/THIRD-PARTY-LICENSES
    dpkg-deb --fsys-tarfile "$package" | tar -xO "$file" > "$work/licenses"
    python3 "$here/../licenses.py" gateway --check "$work/licenses" --program "$program"
done
# In tenths.
for unit in "$here"/*.service; do
    systemd-analyze security --offline=true --no-pager --threshold=25 "$unit" | tail -1
done

if [ -z "$base" ]; then
    base=$work/base.tar
    mmdebstrap --quiet --variant=minbase --include=systemd,systemd-sysv,iproute2,kmod "${SUITE:-bookworm}" "$base"
fi
fresh() {
    mkdir "$1"
    tar -C "$1" -xf "$base"
    # As udev makes it.
    [ -e "$work/tun" ] || mknod -m 666 "$work/tun" c 10 200
    mkdir "$1/srv/try"
    cp "$first" "$1/srv/try/1.deb"
    cp "$second" "$1/srv/try/2.deb"
    cp "$here/try_deb_inside.sh" "$1/srv/try/"
}

echo "== chroot, no systemd"
fresh "$work/chroot"
mkdir -p "$work/chroot/dev/net"
mknod -m 666 "$work/chroot/dev/net/tun" c 10 200
unshare --mount --net --ipc --pid --fork --mount-proc="$work/chroot/proc" chroot "$work/chroot" bash /srv/try/try_deb_inside.sh chroot

[ -z "${NO_BOOT:-}" ] || { echo "== container with systemd: not tried (NO_BOOT)"; exit 0; }
echo "== container, booted by systemd"
fresh "$work/booted"
systemd-nspawn --quiet --boot --directory "$work/booted" --register=no --keep-unit --private-network --console=pipe \
    --bind="$work/tun:/dev/net/tun" > "$work/console" 2>&1 < /dev/null &
container=$!
for _ in $(seq 60); do
    sleep 1
    leader=$(pgrep -P "$container" | head -1) || continue
    inside=(nsenter -t "$leader" -m -u -i -n -p -C)
    case $("${inside[@]}" systemctl is-system-running 2> /dev/null) in running | degraded) break ;; esac
done
"${inside[@]}" bash /srv/try/try_deb_inside.sh booted
echo "== all well"
