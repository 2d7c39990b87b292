//! A file that appears under its name only when it is complete.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// A file that is written under a hidden name beside its place, and is there only once it is complete. Dropped before
/// that, also by a panic, it goes away, and what was there before stays. A link stays one: what it names is replaced. What is
/// no file, a device or a pipe, is written to as it is, for to rename would put a file in its place.
#[derive(Debug)]
pub struct PendingFile {
    path: PathBuf,
    /// None: written to as it is.
    guard: Option<RemoveOnDrop>,
    file: File,
}

impl PendingFile {
    /// Creates it for `path`.
    ///
    /// # Errors
    /// What the file system says, with the path.
    pub fn create(path: &Path) -> io::Result<Self> {
        if fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir()) {
            let file = OpenOptions::new().write(true).open(path).map_err(|error| at(path, &error))?;
            return Ok(Self { path: path.to_owned(), guard: None, file });
        }
        let path = if path.is_symlink() {
            fs::canonicalize(path).map_err(|error| at(path, &error))?
        } else {
            path.to_owned()
        };
        let (partial, file) = create_sibling(&path, "partial", |name| {
            OpenOptions::new().write(true).create_new(true).open(name)
        })
        .map_err(|error| at(&path, &error))?;
        Ok(Self { path, guard: Some(RemoveOnDrop(Some(partial))), file })
    }

    /// What its bytes are written to.
    ///
    /// # Errors
    /// What the system says, with the path.
    pub fn writer(&self) -> io::Result<File> {
        self.file.try_clone().map_err(|error| at(&self.path, &error))
    }

    /// It is complete: brings it to the disk and gives it its name; a file that had it before is replaced at that moment.
    ///
    /// # Errors
    /// What the file system says, with the path.
    pub fn keep(self) -> io::Result<()> {
        let Some(guard) = self.guard else { return Ok(()) };
        // Some systems report a full disk only here.
        let kept = self.file.sync_all().and_then(|()| guard.rename_to(&self.path));
        kept.map_err(|error| at(&self.path, &error))?;
        sync_folder(parent(&self.path));
        Ok(())
    }
}

/// Writes the file at `path` by `write`: under another name beside it first, brought to the disk, then renamed; a file
/// that was there before is replaced at that moment. After an error, or a panic in `write`, what was there before is
/// still there and nothing else is.
///
/// # Errors
/// What `write` or the file system says, with the path.
pub fn write_file(path: &Path, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> io::Result<()> {
    let pending = PendingFile::create(path)?;
    let mut writer = BufWriter::new(pending.writer()?);
    write(&mut writer).and_then(|()| writer.flush()).map_err(|error| at(path, &error))?;
    drop(writer);
    pending.keep()
}

/// Creates by `create` something in the folder of `path`, under a hidden name that is not taken and tells its `state`.
pub(crate) fn create_sibling<T>(
    path: &Path,
    state: &str,
    create: impl Fn(&Path) -> io::Result<T>,
) -> io::Result<(PathBuf, T)> {
    let Some(name) = path.file_name() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "does not end in a name"));
    };
    // The process's number keeps concurrent runs apart; what a killed one with the same number left behind is skipped.
    for attempt in 0..1000 {
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{state}-{}-{attempt}", std::process::id()));
        let sibling = parent(path).join(hidden);
        match create(&sibling) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
            Ok(created) => return Ok((sibling, created)),
        }
    }
    Err(io::Error::new(
        io::ErrorKind::AlreadyExists,
        "a thousand unfinished results are beside it; remove them",
    ))
}

/// The folder that `path` is in.
pub(crate) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Brings a folder's entries to the disk where the system can. Best effort: what is in it is complete and visible, and
/// some file systems refuse to do this for folders.
pub(crate) fn sync_folder(path: &Path) {
    if cfg!(unix) {
        let _ = File::open(path).and_then(|folder| folder.sync_all());
    }
}

/// `error`, saying where it happened.
pub(crate) fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// A file or folder that goes away unless it is renamed.
#[derive(Debug)]
pub(crate) struct RemoveOnDrop(pub(crate) Option<PathBuf>);

impl RemoveOnDrop {
    /// Where it is now.
    pub(crate) fn path(&self) -> &Path {
        self.0.as_deref().expect("set until it is renamed, which consumes it")
    }

    /// It stays, as `path`.
    pub(crate) fn rename_to(mut self, path: &Path) -> io::Result<()> {
        fs::rename(self.path(), path)?;
        self.0 = None;
        Ok(())
    }
}

impl Drop for RemoveOnDrop {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // Nobody is left to tell; its name says that it is partial.
            let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::tests::Scratch;

    #[test]
    fn a_file_is_replaced_whole() {
        let scratch = Scratch::new("file-replaced");
        let path = scratch.0.join("summary.json");
        for text in ["first, and long", "second"] {
            write_file(&path, |out| out.write_all(text.as_bytes())).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(scratch.entries(), ["summary.json"]);
    }

    #[test]
    fn a_file_that_is_under_way_has_no_name_yet_and_meets_no_other() {
        let scratch = Scratch::new("file-pending");
        let path = scratch.0.join("trace.pcapng");
        let (first, second) = (PendingFile::create(&path).unwrap(), PendingFile::create(&path).unwrap());
        first.writer().unwrap().write_all(b"first").unwrap();
        second.writer().unwrap().write_all(b"second").unwrap();
        assert!(!path.exists());
        first.keep().unwrap();
        drop(second);
        assert_eq!(fs::read_to_string(&path).unwrap(), "first");
        assert_eq!(scratch.entries(), ["trace.pcapng"]);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_stays_and_what_is_no_file_is_not_replaced() {
        let scratch = Scratch::new("file-link");
        let (named, link) = (scratch.0.join("real.pcapng"), scratch.0.join("link.pcapng"));
        fs::write(&named, "before").unwrap();
        std::os::unix::fs::symlink(&named, &link).unwrap();
        write_file(&link, |out| out.write_all(b"after")).unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(&named).unwrap(), "after");
        // A socket cannot be opened; a device of the machine is nothing to try this on.
        let socket = scratch.0.join("socket");
        let _bound = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        write_file(&socket, |out| out.write_all(b"nowhere")).unwrap_err();
        assert!(!fs::metadata(&socket).unwrap().is_file());
        assert_eq!(scratch.entries(), ["link.pcapng", "real.pcapng", "socket"]);
    }

    #[test]
    fn a_failed_write_leaves_what_was_there() {
        let scratch = Scratch::new("file-failed");
        let path = scratch.0.join("summary.json");
        write_file(&path, |out| out.write_all(b"before")).unwrap();
        let error = write_file(&path, |out| {
            out.write_all(b"half")?;
            Err(io::Error::from(io::ErrorKind::StorageFull))
        })
        .unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(error.to_string().contains("summary.json"), "{error}");
        let panicked = std::panic::catch_unwind(|| write_file(&path, |_| panic!("in the middle")));
        assert!(panicked.is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "before");
        assert_eq!(scratch.entries(), ["summary.json"]);
    }

    #[test]
    fn a_path_without_a_name_is_refused() {
        assert_eq!(write_file(Path::new(".."), |_| Ok(())).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
