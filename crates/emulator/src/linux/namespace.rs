//! Network namespaces with names, where `ip netns` keeps them too.
//!
//! A namespace lives while a process, a descriptor or a mount holds it. The mount under `/run/netns` gives it a name; it goes
//! with the value, and after a crash with `tidegate emulate --clean`.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread;

use nix::fcntl::{Flock, FlockArg, OFlag};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};

use super::error::{Failure, complain};

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
    is_removed: bool,
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
            |why: io::Error| Failure::of_root(format!("the network namespace {name} cannot be made"), why);
        share_directory().map_err(refused)?;
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
            Ok((file, prepared)) => {
                Ok((Self { name: name.to_owned(), path, file, is_removed: false }, prepared))
            }
            Err(failure) => {
                if let Err(why) = remove(&path) {
                    complain(why);
                }
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
        let file = OpenOptions::new().read(true).custom_flags(OFlag::O_NOFOLLOW.bits()).open(&path)?;
        Ok(Self { name, file, path, is_removed: false })
    }

    /// Takes its name away.
    ///
    /// # Errors
    /// When it stays.
    pub fn remove(mut self) -> Result<(), Failure> {
        self.is_removed = true;
        remove(&self.path)
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
        if !self.is_removed
            && let Err(why) = remove(&self.path)
        {
            complain(why);
        }
    }
}

/// Makes the directory of names a mount that others see, as `ip netns add` does where nobody has: it would do so with a mount
/// of ours in it, which then lies there twice and cannot be taken away.
fn share_directory() -> io::Result<()> {
    fs::create_dir_all(DIRECTORY)?;
    // As `ip` does: one at a time. Where there are no locks, so be it.
    let _lock = Flock::lock(File::open(DIRECTORY)?, FlockArg::LockExclusive);
    let share = || {
        let flags = MsFlags::MS_SHARED | MsFlags::MS_REC;
        mount(None::<&str>, DIRECTORY, None::<&str>, flags, None::<&str>)
    };
    match share() {
        // It is no mount yet.
        Err(nix::Error::EINVAL) => (),
        shared => return Ok(shared?),
    }
    let flags = MsFlags::MS_BIND | MsFlags::MS_REC;
    mount(Some(DIRECTORY), DIRECTORY, None::<&str>, flags, None::<&str>)?;
    Ok(share()?)
}

/// Takes the name away.
///
/// # Errors
/// When it stays.
pub fn remove(path: &Path) -> Result<(), Failure> {
    // A name without a namespace is a plain file, and there is nothing to unmount. Mounts may lie on one another.
    while umount2(path, MntFlags::MNT_DETACH).is_ok() {}
    match fs::remove_file(path) {
        Err(why) if why.kind() != io::ErrorKind::NotFound => {
            Err(Failure::system(format!("{} cannot be removed", path.display()), why))
        }
        _ => Ok(()),
    }
}

/// A namespace belongs to a thread, so whoever changes it takes a thread of its own.
fn in_thread<T: Send>(body: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(body).join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
