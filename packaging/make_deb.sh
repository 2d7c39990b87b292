#!/usr/bin/env bash
# A Debian package of the lab and the emulator, of a wheel: packaging/make_deb.sh WHEEL [FOLDER]
#
# Debian's own typer is too old, so the package brings what it imports, below /usr/lib/tidegate, for the
# Python that it is made with. What is beside it is where Debian wants it: the command, manual pages, completion.
set -euo pipefail
wheel=$(realpath "$1")
out=$(realpath "${2:-dist}")
source=$(cd "$(dirname "$0")/.." && pwd)
python=${PYTHON:-python3}
version=$(basename "$wheel" | cut -d- -f2)
architecture=$(dpkg --print-architecture)
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$source" log -1 --format=%ct)}

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 755 "$root"
library=$root/usr/lib/tidegate
"$python" -m pip install -q --no-compile --no-warn-script-location --target "$library" "${wheel}[plot,data]"
install -d "$root"/usr/{bin,share/man/man1,share/doc/tidegate}
mv "$library/share/doc/tidegate/THIRD-PARTY-LICENSES" "$root/usr/share/doc/tidegate/"
rm -rf "$library"/bin "$library"/share

# `python3` of Debian, which is of the same version as here: Depends says so.
cat > "$root/usr/bin/tidegate" <<'X'
#!/bin/sh
PYTHONPATH="/usr/lib/tidegate${PYTHONPATH:+:$PYTHONPATH}" exec python3 -c 'import sys; sys.argv[0] = "tidegate"; from tidegate.cli import main; main()' "$@"
X
chmod 755 "$root/usr/bin/tidegate"
for page in "$source"/packaging/wheel.data/data/share/man/man1/*.1; do
    gzip -9nc "$page" > "$root/usr/share/man/man1/$(basename "$page").gz"
done
complete() {
    install -d "$root/usr/share/$2"
    PYTHONPATH=$library "$python" -c 'import sys; from tidegate import shells
print(shells.script(shells.Shell(sys.argv[1]), "tidegate"))' "$1" > "$root/usr/share/$2/$3"
}
complete bash bash-completion/completions tidegate
complete zsh zsh/vendor-completions _tidegate
complete fish fish/vendor_completions.d tidegate.fish
gzip -9nc "$source/CHANGELOG.md" > "$root/usr/share/doc/tidegate/changelog.gz"
{
    echo "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/"
    echo "Upstream-Name: tidegate"
    echo
    echo "Files: *"
    echo "Copyright: 2026 the Tidegate authors"
    echo "License: MIT or Apache-2.0"
    sed -e 's/^$/./' -e 's/^/ /' "$source/LICENSE-MIT"
    echo "Comment: Packages below /usr/lib/tidegate have their own licences beside them. What others wrote"
    echo " and is compiled into the module has its own in THIRD-PARTY-LICENSES beside this file."
} > "$root/usr/share/doc/tidegate/copyright"

find "$root" -name __pycache__ -prune -exec rm -rf {} +
find "$root" -newermt "@$SOURCE_DATE_EPOCH" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +
read -r this next < <("$python" -c 'import sys; a, b = sys.version_info[:2]; print(f"{a}.{b} {a}.{b + 1}")')
install -d "$root/DEBIAN"
cat > "$root/DEBIAN/control" <<X
Package: tidegate
Version: $version
Architecture: $architecture
Maintainer: The Tidegate authors <tidegate@example.org>
Installed-Size: $(du -sk --exclude=DEBIAN "$root" | cut -f1)
Depends: python3 (>= $this), python3 (<< $next), libc6
Recommends: iproute2
Section: net
Priority: optional
Description: congestion management for networks that nobody owns end to end
 A deterministic simulator of how networks handle congestion, with a laboratory
 around it, an emulator in which real hosts talk through a scenario, and
 published experiments that can be rerun.
X
install -d "$out"
dpkg-deb --root-owner-group --build "$root" "$out/tidegate_${version}_${architecture}.deb"
