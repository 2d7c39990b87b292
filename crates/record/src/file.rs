//! A file that appears under its name only when it is complete.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Writes the file at `path` by `write`: under another name beside it first, brought to the disk, then renamed; a file
/// that was there before is replaced at that moment. After an error, or a panic in `write`, what was there before is
/// still there and nothing else is.
///
/// # Errors
/// What `write` or the file system says, with the path.
pub fn write_file(path: &Path, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> io::Result<()> {
    let (partial, file) =
        create_sibling(path, "partial", |name| OpenOptions::new().write(true).create_new(true).open(name))
            .map_err(|error| at(path, &error))?;
    let guard = RemoveOnDrop(Some(partial));
    write_through(file, write).and_then(|()| guard.rename_to(path)).map_err(|error| at(path, &error))?;
    sync_folder(parent(path));
    Ok(())
}

/// Fills `file` by `write` and brings it to the disk.
pub(crate) fn write_through(
    file: File,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> io::Result<()> {
    let mut writer = BufWriter::new(file);
    write(&mut writer)?;
    writer.flush()?;
    // Some systems report a full disk only here.
    writer.get_ref().sync_all()
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
