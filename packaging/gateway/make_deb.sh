#!/usr/bin/env bash
# A Debian package of the gateway: packaging/gateway/make_deb.sh PROGRAM [FOLDER]
#
# PROGRAM is what `cargo build --release -p tidegate-gateway --features daemon` made on the oldest Debian that is to run it.
set -euo pipefail
program=$(realpath "$1")
out=$(realpath -m "${2:-dist}")
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
version=$("$program" --version | cut -d' ' -f2)
architecture=$(dpkg --print-architecture)
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$source" log -1 --format=%ct)}

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 755 "$root"
install -Dm755 "$program" "$root/usr/bin/tidegate-gateway"
strip "$root/usr/bin/tidegate-gateway"
ln -s tidegate-gateway "$root/usr/bin/tidegatectl"
install -Dm644 "$here/tidegate-gateway.service" "$root/usr/lib/systemd/system/tidegate-gateway.service"
install -Dm644 "$here/tidegate.sysusers" "$root/usr/lib/sysusers.d/tidegate.conf"
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
{
    echo "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/"
    echo "Upstream-Name: tidegate"
    echo
    echo "Files: *"
    echo "Copyright: 2026 the Tidegate authors"
    echo "License: MIT or Apache-2.0"
    sed -e 's/^$/./' -e 's/^/ /' "$source/LICENSE-MIT"
} > "$root/usr/share/doc/tidegate-gateway/copyright"

install -d "$root/DEBIAN"
cat > "$root/DEBIAN/postinst" <<'X'
#!/bin/sh
set -e
if [ "$1" = configure ]; then
    systemd-sysusers tidegate.conf || true
    # The daemon reads its files as who it is; nobody else reads keys.
    if getent passwd tidegate > /dev/null; then chown root:tidegate /etc/tidegate; fi
    chmod 750 /etc/tidegate
    if [ -d /run/systemd/system ]; then
        systemctl daemon-reload
        modprobe tun || true
        systemctl try-restart tidegate-gateway.service || true
    fi
fi
X
cat > "$root/DEBIAN/prerm" <<'X'
#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
    systemctl disable --now tidegate-gateway.service || true
    # Whoever removes it wants the other routes back.
    [ ! -f /etc/tidegate/gateway.toml ] || tidegate-gateway open /etc/tidegate/gateway.toml || true
fi
X
cat > "$root/DEBIAN/postrm" <<'X'
#!/bin/sh
set -e
if [ "$1" = purge ]; then
    rm -rf /etc/tidegate /var/lib/tidegate
fi
if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
X
chmod 755 "$root"/DEBIAN/{postinst,prerm,postrm}
find "$root" -newermt "@$SOURCE_DATE_EPOCH" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +
cat > "$root/DEBIAN/control" <<X
Package: tidegate-gateway
Version: $version
Architecture: $architecture
Maintainer: The Tidegate authors <tidegate@example.org>
Installed-Size: $(du -sk --exclude=DEBIAN "$root" | cut -f1)
Depends: libc6, libgcc-s1, iproute2, systemd
Section: net
Priority: optional
Description: gateway that joins sites and holds their queues where they are managed
 A daemon that speaks WireGuard's wire format, finds the rate that a path
 really gives, and keeps the queue at the gateway, where flows are treated
 fairly and delays stay short.
X
install -d "$out"
dpkg-deb --root-owner-group --build "$root" "$out/tidegate-gateway_${version}_${architecture}.deb"
