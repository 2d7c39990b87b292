//! Tells the module from which revision and with which profile it is built. Of a commit it is the same wherever that is done.

use std::path::Path;
use std::process::Command;

/// Digits of a revision: enough for any repository of this size.
const DIGITS: &str = "--short=12";

fn main() {
    println!("cargo::rerun-if-env-changed=TIDEGATE_REVISION");
    let given = std::env::var("TIDEGATE_REVISION").ok().filter(|revision| !revision.is_empty());
    let revision = given.or_else(of_git).unwrap_or_else(|| "no repository".to_owned());
    println!("cargo::rustc-env=TIDEGATE_REVISION={revision}");
    // target/PROFILE/build/CRATE/out: `PROFILE` of the environment only knows debug and release.
    let out = std::env::var("OUT_DIR").unwrap_or_default();
    let profile = Path::new(&out).ancestors().nth(3).and_then(Path::file_name).unwrap_or_default();
    println!("cargo::rustc-env=TIDEGATE_PROFILE={}", profile.display());
}

/// The commit that is checked out, with a plus where what is compiled differs from it; none outside of a repository that has
/// this file.
fn of_git() -> Option<String> {
    git(&["ls-files", "--error-unmatch", "build.rs"])?;
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    for path in ["..", "../../Cargo.toml", "../../Cargo.lock", &log] {
        if Path::new(path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    let commit = git(&["rev-parse", DIGITS, "HEAD"])?;
    let changed = git(&["status", "--porcelain", "--", "..", "../../Cargo.toml", "../../Cargo.lock"])?;
    Some(if changed.is_empty() { commit } else { format!("{commit}+") })
}

/// What git answers, if it does.
fn git(arguments: &[&str]) -> Option<String> {
    let answer =
        Command::new("git").args(arguments).output().ok().filter(|answer| answer.status.success())?;
    Some(String::from_utf8(answer.stdout).ok()?.trim().to_owned())
}
