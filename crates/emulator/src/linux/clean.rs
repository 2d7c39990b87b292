//! Which run is alive, and what dead ones left.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg, OFlag};

use super::error::Failure;
use super::namespace::{self, Namespace};
use super::processes;

/// Where each run holds a locked file: the lock goes with the process, however that ends. Nobody else writes there.
const DIRECTORY: &str = "/run/tidegate-emulate";
const DIRECTORY_MODE: u32 = 0o700;
const ENDING: &str = ".lock";
/// Whoever cleans may hold the lock of a run that has just begun under the number of a dead one: so often it is tried again.
const TRIES_MAX: u32 = 100;
const PAUSE: Duration = Duration::from_millis(50);

/// A run that is alive.
#[derive(Debug)]
pub struct Lease {
    run: u32,
    path: PathBuf,
    _lock: Flock<File>,
}

/// The directory of locks, made if it is not there; never one that others may write to.
fn directory() -> io::Result<()> {
    match DirBuilder::new().mode(DIRECTORY_MODE).create(DIRECTORY) {
        Err(why) if why.kind() != io::ErrorKind::AlreadyExists => return Err(why),
        _ => (),
    }
    let found = fs::symlink_metadata(DIRECTORY)?;
    let is_ours = found.is_dir() && found.uid() == nix::unistd::geteuid().as_raw();
    if is_ours && found.mode() & 0o022 == 0 {
        return Ok(());
    }
    Err(io::Error::other("it is not the directory of root alone"))
}

/// The lock of `path`, if nobody has it; the file is made if `is_new`.
fn lock(path: &Path, is_new: bool) -> io::Result<Option<Flock<File>>> {
    let mut options = OpenOptions::new();
    options.write(true).create(is_new).truncate(false).mode(0o600).custom_flags(OFlag::O_NOFOLLOW.bits());
    let lock = match Flock::lock(options.open(path)?, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => lock,
        Err((_, nix::Error::EWOULDBLOCK)) => return Ok(None),
        Err((_, why)) => return Err(why.into()),
    };
    // Somebody may have removed it meanwhile, and the lock of a file without a name is worth nothing.
    let (held, named) = (lock.metadata()?, fs::symlink_metadata(path)?);
    let is_same = (held.dev(), held.ino()) == (named.dev(), named.ino());
    if is_same { Ok(Some(lock)) } else { Err(io::ErrorKind::NotFound.into()) }
}

impl Lease {
    /// Begins the run of this process, `run`: what an earlier one of the same number left is removed.
    ///
    /// # Errors
    /// When the system refuses it.
    pub fn take(run: u32) -> Result<Self, Failure> {
        let refused = |why| Failure::of_root(format!("{DIRECTORY} cannot be written to"), why);
        let path = Path::new(DIRECTORY).join(format!("{run}{ENDING}"));
        for _ in 0..TRIES_MAX {
            directory().map_err(refused)?;
            match lock(&path, true) {
                Ok(Some(lock)) => {
                    remove_run(run, &mut Cleaned::default()).map_err(refused)?;
                    return Ok(Self { run, path, _lock: lock });
                }
                // It, or the directory, was removed meanwhile.
                Err(why) if why.kind() == io::ErrorKind::NotFound => (),
                Err(why) => return Err(refused(why)),
                Ok(None) => thread::sleep(PAUSE),
            }
        }
        Err(refused(io::Error::other(format!("{} is taken", path.display()))))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // What could not be removed is found by it.
        if left_by(self.run).is_ok_and(|left| left.is_empty()) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// What [`clean`] did.
#[derive(Debug, Default)]
pub struct Cleaned {
    /// The names of namespaces that it removed.
    pub removed: Vec<String>,
    /// Why others are still there.
    pub refused: Vec<Failure>,
}

/// Removes what runs left that did not end well. Running ones are left alone, and whatever has no lock of ours.
///
/// # Errors
/// When the system refuses it.
pub fn clean() -> Result<Cleaned, Failure> {
    let refused = |why| Failure::of_root("what is left cannot be removed", why);
    if !nix::unistd::geteuid().is_root() {
        return Err(refused(io::ErrorKind::PermissionDenied.into()));
    }
    let mut cleaned = Cleaned::default();
    if fs::symlink_metadata(DIRECTORY).is_err() {
        return Ok(cleaned);
    }
    directory().map_err(|why| Failure::system(format!("{DIRECTORY} cannot be used"), why))?;
    for path in entries(Path::new(DIRECTORY)).map_err(refused)? {
        let Some(run) = run_of(&path) else { continue };
        let _dead = match lock(&path, false) {
            Ok(Some(lock)) => lock,
            Ok(None) => continue,
            Err(why) if why.kind() == io::ErrorKind::NotFound => continue,
            Err(why) => return Err(refused(why)),
        };
        if remove_run(run, &mut cleaned).map_err(refused)? {
            fs::remove_file(&path).map_err(refused)?;
        }
    }
    // Only if nobody else runs.
    let _ = fs::remove_dir(DIRECTORY);
    cleaned.removed.sort();
    Ok(cleaned)
}

/// The run that a lock is of.
fn run_of(path: &Path) -> Option<u32> {
    number(path.file_name()?.to_str()?.strip_suffix(ENDING)?)
}

fn number(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// The names of the namespaces that are of `run`.
fn left_by(run: u32) -> io::Result<Vec<PathBuf>> {
    let is_its = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let rest = name.strip_prefix(namespace::PREFIX).and_then(|rest| rest.split_once('-'));
        rest.is_some_and(|(theirs, _)| theirs == run.to_string())
    };
    Ok(entries(Path::new(namespace::DIRECTORY))?.into_iter().filter(is_its).collect())
}

/// Removes what `run`, whose lock we have, left; whether all of it has gone.
fn remove_run(run: u32, cleaned: &mut Cleaned) -> io::Result<bool> {
    let mut is_all = true;
    for path in left_by(run)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let removed = match Namespace::adopt(path.clone()) {
            Ok(namespace) => {
                if !processes::end(&[&namespace], &mut ()) {
                    let why = io::Error::other("processes in it did not end");
                    cleaned.refused.push(Failure::system(&name, why));
                }
                // The device went with the process that held it.
                namespace.remove()
            }
            Err(_) => namespace::remove(&path),
        };
        match removed {
            Ok(()) => cleaned.removed.push(name),
            Err(why) => {
                is_all = false;
                cleaned.refused.push(why);
            }
        }
    }
    Ok(is_all)
}

fn entries(directory: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(directory) {
        Ok(entries) => entries.map(|entry| entry.map(|entry| entry.path())).collect(),
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(why) => Err(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_named_by_a_number_is_a_lock() {
        for (name, run) in [("17.lock", Some(17)), ("gateway.sock", None), ("+1.lock", None), (".lock", None)]
        {
            assert_eq!(run_of(&Path::new(DIRECTORY).join(name)), run, "{name}");
        }
    }

    #[test]
    fn a_link_is_never_opened_and_a_file_that_was_replaced_is_no_lock() {
        let folder = std::env::temp_dir().join(format!("tidegate-clean-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (file, link) = (folder.join("1.lock"), folder.join("2.lock"));
        std::os::unix::fs::symlink(folder.join("elsewhere"), &link).unwrap();
        assert!(lock(&link, true).is_err() && !folder.join("elsewhere").exists());
        assert_eq!(lock(&file, false).unwrap_err().kind(), io::ErrorKind::NotFound);
        let held = lock(&file, true).unwrap().expect("nobody has it");
        assert!(lock(&file, true).unwrap().is_none());
        fs::remove_file(&file).unwrap();
        let again = lock(&file, true).unwrap();
        assert!(again.is_some(), "another file of the same name");
        drop((held, again));
        fs::remove_dir_all(&folder).unwrap();
    }
}
