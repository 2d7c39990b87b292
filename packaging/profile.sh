#!/usr/bin/env bash
# A profile of simulations for the compiler: target/tidegate.profdata, of what ran while the scenarios in the
# given files did (those of examples/ where none is given). `make build-profiled` compiles by it, to target/profiled.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
(($#)) || set -- "$here"/examples/*.toml
# What reads a profile must be of the compiler that wrote it.
merge=$(compgen -G "$(rustc --print sysroot)/lib/rustlib/*/bin/llvm-profdata" || true)
if [[ -z $merge ]]; then
  echo >&2 "llvm-profdata of this compiler is missing: rustup component add llvm-tools"
  exit 1
fi
counts=$here/target/profile
rm -rf "$counts"
RUSTFLAGS="-Cprofile-generate=$counts" cargo build --release -q --manifest-path "$here/Cargo.toml" \
  -p tidegate-lab --example speed --target-dir "$here/target/counting"
for file in "$@"; do
  echo >&2 "profile: $file"
  "$here/target/counting/release/examples/speed" "$file" >/dev/null
done
profile=$here/target/tidegate.profdata
"$merge" merge -o "$profile.new" "$counts"
# Cargo does not see when what is in a profile changes: what was compiled by another one must go.
cmp -s "$profile.new" "$profile" || rm -rf "$here/target/profiled"
mv "$profile.new" "$profile"
