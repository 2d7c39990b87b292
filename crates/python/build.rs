//! Tells the module by which sources it simulates: results of other ones are not results of its own, whatever version they bear.

use std::fs;
use std::path::{Path, PathBuf};

/// What a result may depend on.
const CRATES: [&str; 9] =
    ["units", "parameters", "packet", "mechanism", "document", "scenario", "engine", "lab", "record"];

fn main() {
    let mut files = Vec::new();
    for name in CRATES {
        let folder = Path::new("..").join(name).join("src");
        println!("cargo::rerun-if-changed={}", folder.display());
        collect(&folder, &mut files);
    }
    let lock = PathBuf::from("../../Cargo.lock");
    println!("cargo::rerun-if-changed={}", lock.display());
    files.push(lock);
    files.sort();
    let mut digest = Fnv::default();
    for file in files {
        // A file that is not there, as in a package of sources, counts by its name.
        digest.add(file.to_string_lossy().as_bytes());
        digest.add(&fs::read(&file).unwrap_or_default());
    }
    println!("cargo::rustc-env=TIDEGATE_ENGINE={:016x}", digest.0);
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else {
            files.push(path);
        }
    }
}

/// FNV-1a with 64 bits: it tells sources apart, and keeps nobody out.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn add(&mut self, bytes: &[u8]) {
        // The length keeps what stands in two files apart.
        for byte in (bytes.len() as u64).to_le_bytes().iter().chain(bytes) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
