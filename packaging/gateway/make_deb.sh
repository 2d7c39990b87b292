#!/usr/bin/env bash
# A Debian package of the gateway: packaging/gateway/make_deb.sh PROGRAM [FOLDER [REVISION]]
#
# PROGRAM is what `cargo build --release -p tidegate-gateway --features daemon` made on the oldest Debian that is to run it;
# REVISION counts packages of the same version of it, from 1. try_deb.sh tries what comes out. The licences of what
# it is compiled from are taken from where cargo and the compiler have them.
set -euo pipefail
program=$(realpath "$1")
out=$(realpath -m "${2:-dist}")
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
revision=${3:-1}
version=$("$program" --version | cut -d' ' -f2)-$revision
maintainer="The Tidegate authors <tidegate@example.org>"
architecture=$(dpkg --print-architecture)
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$source" log -1 --format=%ct)}

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 755 "$root"
install -Dm755 "$program" "$root/usr/bin/tidegate-gateway"
strip --remove-section=.comment --remove-section=.note "$root/usr/bin/tidegate-gateway"
ln -s tidegate-gateway "$root/usr/bin/tidegatectl"
for unit in tidegate-gateway tidegate-gateway-close; do
    install -Dm644 "$here/$unit.service" "$root/usr/lib/systemd/system/$unit.service"
done
install -Dm644 "$here/tidegate.sysusers" "$root/usr/lib/sysusers.d/tidegate.conf"
install -Dm644 "$here/tidegate.networkd" "$root/usr/lib/systemd/networkd.conf.d/tidegate.conf"
install -Dm644 "$here/tidegate.modules" "$root/usr/lib/modules-load.d/tidegate.conf"
install -Dm644 "$here/grafana.json" "$root/usr/share/doc/tidegate-gateway/examples/grafana.json"
for page in tidegate-gateway tidegatectl; do
    install -d "$root/usr/share/man/man8"
    gzip -9nc "$here/$page.8" > "$root/usr/share/man/man8/$page.8.gz"
done
for name in tidegate-gateway tidegatectl; do
    # The program is what its name says.
    link=$(mktemp -d) && ln -s "$program" "$link/$name"
    install -d "$root"/usr/share/{bash-completion/completions,zsh/vendor-completions,fish/vendor_completions.d}
    "$link/$name" completion bash > "$root/usr/share/bash-completion/completions/$name"
    "$link/$name" completion zsh > "$root/usr/share/zsh/vendor-completions/_$name"
    "$link/$name" completion fish > "$root/usr/share/fish/vendor_completions.d/$name.fish"
    rm -r "$link"
done
install -d -m755 "$root/etc/tidegate"
gzip -9nc "$source/CHANGELOG.md" > "$root/usr/share/doc/tidegate-gateway/changelog.gz"
gzip -9nc > "$root/usr/share/doc/tidegate-gateway/changelog.Debian.gz" <<X
tidegate-gateway ($version) unstable; urgency=medium

  * A package of what its authors released; changelog.gz says what is new.

 -- $maintainer  $(date -uRd "@$SOURCE_DATE_EPOCH")
X
{
    echo "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/"
    echo "Upstream-Name: tidegate"
    echo "Comment: What others wrote and is compiled into the program has licences of its own:"
    echo " they are in THIRD-PARTY-LICENSES beside this file."
    echo
    echo "Files: *"
    echo "Copyright: 2026 the Tidegate authors"
    echo "License: MIT or Apache-2.0"
    sed -e 's/^$/./' -e 's/^/ /' "$source/LICENSE-MIT"
    echo " ."
    echo " The Apache License, version 2.0, is in /usr/share/common-licenses/Apache-2.0."
} > "$root/usr/share/doc/tidegate-gateway/copyright"
python3 "$here/../licenses.py" gateway > "$root/usr/share/doc/tidegate-gateway/THIRD-PARTY-LICENSES"

# What lintian says and is not mended, with the reason.
[ "$revision" != 1 ] || install -Dm644 /dev/stdin "$root/usr/share/lintian/overrides/tidegate-gateway" <<'X'
# It is not meant for Debian's archive, where the first upload answers a request.
tidegate-gateway: initial-upload-closes-no-bugs [usr/share/doc/tidegate-gateway/changelog.Debian.gz:1]
X

install -d "$root/DEBIAN"
cat > "$root/DEBIAN/postinst" <<'X'
#!/bin/sh
set -e
unit=tidegate-gateway.service
case "$1" in configure | abort-upgrade | abort-deconfigure | abort-remove)
    systemd-sysusers tidegate.conf
    # The daemon reads its files as who it is; nobody else reads keys. Who wants it otherwise tells dpkg-statoverride.
    if ! dpkg-statoverride --list /etc/tidegate > /dev/null; then
        chown root:tidegate /etc/tidegate
        chmod 750 /etc/tidegate
    fi
    # It is not enabled by itself, for there is no configuration yet. What was enabled before it was removed is again.
    if deb-systemd-helper debian-installed "$unit" && deb-systemd-helper --quiet was-enabled "$unit"; then
        deb-systemd-helper enable "$unit" > /dev/null
    fi
    deb-systemd-helper update-state "$unit" tidegate-gateway-close.service > /dev/null || true
    if [ -d /run/systemd/system ]; then
        systemctl --system daemon-reload || true
        modprobe -q tun || true
        # After an upgrade the new program takes device and sockets over. One that was stopped stays stopped.
        if [ -n "$2" ]; then deb-systemd-invoke try-restart "$unit" || true; fi
        if [ "$1" = abort-remove ]; then deb-systemd-invoke start "$unit" || true; fi
    fi
    ;;
esac
X
cat > "$root/DEBIAN/prerm" <<'X'
#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
    deb-systemd-invoke stop tidegate-gateway.service tidegate-gateway-close.service || true
    # Whoever removes it wants the other routes back; why they cannot be had is said, and is no reason to keep the package.
    if [ -f /etc/tidegate/gateway.toml ] || [ -f /var/lib/tidegate/gateway.json ]; then
        tidegate-gateway open /etc/tidegate/gateway.toml || true
    fi
fi
X
cat > "$root/DEBIAN/postrm" <<'X'
#!/bin/sh
set -e
if [ "$1" = purge ]; then
    # The user stays, as Debian's users do: files elsewhere, like keys, would be the next one's who gets the number.
    rm -rf /etc/tidegate /var/lib/tidegate
    if command -v deb-systemd-helper > /dev/null; then
        deb-systemd-helper purge tidegate-gateway.service tidegate-gateway-close.service > /dev/null
    fi
fi
if [ -d /run/systemd/system ]; then systemctl --system daemon-reload || true; fi
X
chmod 755 "$root"/DEBIAN/{postinst,prerm,postrm}
(cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum) > "$root/DEBIAN/md5sums"
# The oldest libc that has all that it calls.
libc=$(objdump -T "$program" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -1)
find "$root" -newermt "@$SOURCE_DATE_EPOCH" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +
cat > "$root/DEBIAN/control" <<X
Package: tidegate-gateway
Version: $version
Architecture: $architecture
Maintainer: $maintainer
Installed-Size: $(du -sk --exclude=DEBIAN "$root" | cut -f1)
Depends: libc6 (>= ${libc#GLIBC_}), libgcc-s1, iproute2, systemd
Section: net
Priority: optional
Description: gateway that joins sites and holds their queues where they are managed
 A daemon that speaks WireGuard's wire format, finds the rate that a path
 really gives, and keeps the queue at the gateway, where flows are treated
 fairly and delays stay short.
X
install -d "$out"
dpkg-deb --root-owner-group --build "$root" "$out/tidegate-gateway_${version}_${architecture}.deb"
