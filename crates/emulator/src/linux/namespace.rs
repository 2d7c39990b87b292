//! Network namespaces with names, where `ip netns` keeps them too.
//!
//! A namespace lives while a process, a descriptor or a mount holds it. The mount under `/run/netns` gives it a name; it goes
//! with the value, and after a crash with `tidegate emulate --clean`.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};

use super::error::Failure;

/// Where namespaces have their names.
pub const DIRECTORY: &str = "/run/netns";
/// All of ours begin so.
pub const PREFIX: &str = "tidegate-";

/// A network namespace; it loses its name when this is dropped.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    path: PathBuf,
    file: File,
}

impl Namespace {
    /// Makes the namespace `name`, and runs `prepare` in it.
    ///
    /// # Errors
    /// When the system refuses it.
    pub fn create<T: Send>(
        name: &str,
        prepare: impl FnOnce() -> Result<T, Failure> + Send,
    ) -> Result<(Self, T), Failure> {
        let path = Path::new(DIRECTORY).join(name);
        let refused =
            |why: io::Error| Failure::system(format!("the network namespace {name} cannot be made"), why);
        fs::create_dir_all(DIRECTORY).map_err(refused)?;
        OpenOptions::new().write(true).create_new(true).open(&path).map_err(refused)?;
        // Only the thread that makes it is in it, and its end leaves the mount.
        let made = in_thread(|| -> Result<T, Failure> {
            unshare(CloneFlags::CLONE_NEWNET).map_err(|why| refused(why.into()))?;
            let own = Path::new("/proc/thread-self/ns/net");
            mount(Some(own), &path, None::<&str>, MsFlags::MS_BIND, None::<&str>)
                .map_err(|why| refused(why.into()))?;
            prepare()
        });
        let opened = made.and_then(|made| Ok((File::open(&path).map_err(refused)?, made)));
        match opened {
            Ok((file, prepared)) => Ok((Self { name: name.to_owned(), path, file }, prepared)),
            Err(failure) => {
                remove(&path);
                Err(failure)
            }
        }
    }

    /// Opens one that an earlier run left.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn adopt(path: PathBuf) -> io::Result<Self> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self { name, file: File::open(&path)?, path })
    }

    /// Its name, as `ip netns` lists it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The descriptor that holds it.
    pub const fn file(&self) -> &File {
        &self.file
    }

    /// Runs `inside` in the namespace. A process that it starts remains there.
    ///
    /// # Errors
    /// When the system lets nobody in.
    pub fn enter<T: Send>(&self, inside: impl FnOnce() -> T + Send) -> io::Result<T> {
        in_thread(|| {
            setns(&self.file, CloneFlags::CLONE_NEWNET)?;
            Ok(inside())
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// Takes the name away.
pub fn remove(path: &Path) {
    // A name without a namespace is a plain file, and there is nothing to unmount. Nobody is left to hear of failures.
    let _ = umount2(path, MntFlags::MNT_DETACH);
    let _ = fs::remove_file(path);
}

/// A namespace belongs to a thread, so whoever changes it takes a thread of its own.
fn in_thread<T: Send>(body: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(body).join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
