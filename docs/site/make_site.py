"""Makes the documentation a site that needs no network: `make site`.

Lays out what `docs/` and the root of the repository have to read (`pages`), a gallery of all experiments
(`gallery`) and references of Python and Rust (`references`); lets Sphinx make HTML of it, where each warning
is an error; and checks the links of what came out (`check`).

    python docs/site/make_site.py --results results/quick --rust target/doc --out target/site
    python docs/site/make_site.py --results results/quick --links     # asks whether links to elsewhere answer
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

import check
import gallery
import pages
import references

HERE = Path(__file__).resolve().parent


def lay_out(source: Path, results: Path, rust: Path | None) -> None:
    """Write what Sphinx reads; pictures of before stay where they are newer than their results."""
    for page in source.rglob("*.md"):
        page.unlink()
    names = gallery.places()
    pages.copy_all(source, names)
    generated = {
        "Experiments": gallery.make(source, results),
        "Reference": references.make(source, rust),
        "Project": ["contents.md", *pages.PROJECT.values()],
    }
    home = source / "index.md"
    pages.write(home, home.read_text(encoding="utf-8") + "\n" + pages.toctrees(generated))


def sphinx(builder: str, source: Path, out: Path) -> int:
    """Run Sphinx on all pages; its exit code."""
    command = [sys.executable, "-m", "sphinx", "-b", builder, "-c", str(HERE), "-E", "-a", "-q", "-j", "auto"]
    doctrees = source.with_name("doctrees")
    strict = ["-W", "--keep-going", "-n"]
    done = subprocess.run([*command, *strict, "-d", str(doctrees), str(source), str(out)], check=False)
    return done.returncode


def main() -> int:
    """Make the site; 1 where a page or a link is wrong."""
    parser = argparse.ArgumentParser(description="Make the site.")
    parser.add_argument("--results", type=Path, required=True, help="what `tidegate reproduce --quick` left")
    parser.add_argument("--rust", type=Path, help="what `cargo doc` made")
    parser.add_argument("--work", type=Path, default=Path("target/site-work"), help="for what is in between")
    parser.add_argument("--out", type=Path, default=Path("target/site"), help="where the site goes")
    parser.add_argument("--links", action="store_true", help="ask whether links to elsewhere answer")
    options = parser.parse_args()
    source = options.work / "source"
    gallery.require_results(options.results)
    try:
        lay_out(source, options.results, options.rust)
    except pages.LayoutError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if options.links:
        return sphinx("linkcheck", source, options.work / "links")
    shutil.rmtree(options.out, ignore_errors=True)
    if code := sphinx("html", source, options.out):
        return code
    if options.rust:
        shutil.copytree(options.rust, options.out / "rust")
    if wrong := check.site(options.out):
        print("\n".join(wrong), file=sys.stderr)
        return 1
    found = [file for file in options.out.rglob("*") if file.is_file()]
    own = [file for file in found if not file.is_relative_to(options.out / "rust")]
    sizes = [sum(file.stat().st_size for file in files) / 1e6 for files in (own, found)]
    count = sum(file.suffix == ".html" for file in own)
    print(f"{options.out / 'index.html'}: {count} pages, {sizes[0]:.1f} MB; {sizes[1]:.1f} MB with Rust")
    return 0


if __name__ == "__main__":
    sys.exit(main())
