"""`make fuzz SECONDS=N [TARGETS="a b"]`: each target for so long, with its corpus.

What fails is in artifacts/TARGET. The corpora that are committed (corpus/TARGET) are read; what a run finds
beyond them goes to found/TARGET, from which `--merge` takes the inputs that reach something new.
"""

import argparse
import subprocess
import sys
import tomllib
from pathlib import Path

import seeds

HERE = Path(__file__).parent
# No input may take longer than this by the clock of a machine that does other things as well, or make the
# process larger.
SECONDS_MAX = 10
MEGABYTES_MAX = 500
INPUT_BYTES_MAX = 4096
# What is committed of a corpus, at most.
KEPT_MAX = 150


def run(target: str, *arguments: str) -> int:
    """The program of a target with these arguments; its exit code. Sources may change meanwhile."""
    (program,) = HERE.glob(f"target/*/release/{target}")
    failures = HERE / "artifacts" / target
    failures.mkdir(parents=True, exist_ok=True)
    return subprocess.run([program, f"-artifact_prefix={failures}/", *arguments]).returncode


def main() -> None:
    """Build all targets, then run them one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--runs", type=int, help="inputs for each target, in place of seconds")
    parser.add_argument("--merge", action="store_true", help="take what was found into the corpora")
    parser.add_argument("targets", nargs="*", help="all, if none is given")
    given = parser.parse_args()
    declared = tomllib.loads((HERE / "Cargo.toml").read_text())["bin"]
    targets = given.targets or [target["name"] for target in declared]
    seeds.main()
    subprocess.run(["cargo", "fuzz", "build", "--sanitizer", "none"], cwd=HERE.parent, check=True)
    failed = []
    for target in targets:
        kept, found = HERE / "corpus" / target, HERE / "found" / target
        sown = HERE / "seeds" / target
        for folder in (kept, found, sown):
            folder.mkdir(parents=True, exist_ok=True)
        limits = [f"-timeout={SECONDS_MAX}", f"-rss_limit_mb={MEGABYTES_MAX}", f"-max_len={INPUT_BYTES_MAX}"]
        if given.merge:
            merged = HERE / "merged" / target
            merged.mkdir(parents=True, exist_ok=True)
            folders = [str(merged), *map(str, (kept, found, sown))]
            if run(target, *folders, "-merge=1", *limits):
                failed.append(target)
            for old in kept.iterdir():
                old.unlink()
            for path in sorted(merged.iterdir(), key=lambda path: path.stat().st_size)[:KEPT_MAX]:
                (kept / path.name).write_bytes(path.read_bytes())
            continue
        until = f"-runs={given.runs}" if given.runs else f"-max_total_time={given.seconds}"
        print(f"== {target}", flush=True)
        folders = [*map(str, (found, kept, sown))]
        if run(target, *folders, until, "-print_final_stats=1", *limits):
            failed.append(target)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}; the inputs are in fuzz/artifacts")


if __name__ == "__main__":
    main()
