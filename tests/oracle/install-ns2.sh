#!/usr/bin/env bash
# Installs ns-2.35 (Debian package ns2) where it is missing.
set -euo pipefail
command -v ns >/dev/null && exit 0
echo "installing ns-2 (Debian package ns2)" >&2
if [ "$(id -u)" = 0 ]; then apt-get update -q && apt-get install -qy ns2; else
    echo "ns-2 is missing. Install it: apt install ns2" >&2
    exit 1
fi
