//! Which run is alive, and what dead ones left.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};

use super::error::Failure;
use super::namespace::{self, Namespace};
use super::processes;

/// Where each run holds a locked file: the lock goes with the process, however that ends.
const DIRECTORY: &str = "/run/tidegate";

/// A run that is alive.
#[derive(Debug)]
pub struct Lease {
    path: PathBuf,
    _lock: Flock<File>,
}

fn path_of(run: &str) -> PathBuf {
    Path::new(DIRECTORY).join(format!("{run}.lock"))
}

/// The lock of `path`, if nobody has it.
fn lock(path: &Path) -> io::Result<Option<Flock<File>>> {
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => Ok(Some(lock)),
        Err((_, nix::Error::EWOULDBLOCK)) => Ok(None),
        Err((_, why)) => Err(why.into()),
    }
}

impl Lease {
    /// Begins the run of this process.
    ///
    /// # Errors
    /// When the system refuses it.
    pub fn take(run: u32) -> Result<Self, Failure> {
        let refused = |why| Failure::system(format!("{DIRECTORY} cannot be written to"), why);
        fs::create_dir_all(DIRECTORY).map_err(refused)?;
        let path = path_of(&run.to_string());
        let lock = lock(&path).map_err(refused)?;
        let lock = lock.ok_or_else(|| refused(io::Error::other(format!("{} is taken", path.display()))))?;
        Ok(Self { path, _lock: lock })
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Removes what runs left that did not end well; the names of their namespaces. Running ones are left alone.
///
/// # Errors
/// When the system refuses it.
pub fn clean() -> Result<Vec<String>, Failure> {
    let refused = |why| Failure::system("what is left cannot be removed", why);
    if !nix::unistd::geteuid().is_root() {
        return Err(refused(io::ErrorKind::PermissionDenied.into()));
    }
    let mut removed = Vec::new();
    for path in entries(Path::new(namespace::DIRECTORY)).map_err(refused)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some((run, _)) = name.strip_prefix(namespace::PREFIX).and_then(|rest| rest.split_once('-'))
        else {
            continue;
        };
        fs::create_dir_all(DIRECTORY).map_err(refused)?;
        let Some(_dead) = lock(&path_of(run)).map_err(refused)? else { continue };
        match Namespace::adopt(path.clone()) {
            // Its name goes with the value; the device went with the process that held it.
            Ok(namespace) => processes::end(&[&namespace], || ()),
            Err(_) => namespace::remove(&path),
        }
        removed.push(name);
    }
    for path in entries(Path::new(DIRECTORY)).map_err(refused)? {
        if lock(&path).map_err(refused)?.is_some() {
            fs::remove_file(&path).map_err(refused)?;
        }
    }
    // Only if nobody else runs.
    let _ = fs::remove_dir(DIRECTORY);
    removed.sort();
    Ok(removed)
}

fn entries(directory: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(directory) {
        Ok(entries) => entries.map(|entry| entry.map(|entry| entry.path())).collect(),
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(why) => Err(why),
    }
}
