//! A folder of results that appears under its name only when it is complete.
//!
//! A run that fails, is interrupted, or meets a full disk leaves nothing that could be taken for results.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::file::{RemoveOnDrop, at, create_sibling, parent, sync_folder, write_through};

/// Every results folder has a file of this name. Only folders that have it are ever replaced, so that no slip of a path
/// removes something else.
const MARKER: &str = ".tidegate-results";

/// What to do about a folder that is there already.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Existing {
    /// Leave it, and fail.
    #[default]
    Refuse,
    /// Put the new one in its place, once the new one is complete. Only results and empty folders are replaced.
    Replace,
}

/// A folder of results in the making. It and all in it is removed if it is dropped without [`ResultsFolder::commit`].
#[derive(Debug)]
pub struct ResultsFolder {
    target: PathBuf,
    existing: Existing,
    partial: RemoveOnDrop,
    failed: AtomicBool,
}

impl ResultsFolder {
    /// Begins the folder that will be `target`, under another name beside it. Folders above it are made where missing.
    ///
    /// # Errors
    /// `AlreadyExists` if `existing` forbids it; what the file system says.
    pub fn create(target: impl Into<PathBuf>, existing: Existing) -> io::Result<Self> {
        let target = target.into();
        check_target(&target, existing)?;
        fs::create_dir_all(parent(&target)).map_err(|error| at(parent(&target), &error))?;
        let (partial, ()) = create_sibling(&target, "partial", |name| fs::create_dir(name))
            .map_err(|error| at(&target, &error))?;
        let folder =
            Self { target, existing, partial: RemoveOnDrop(Some(partial)), failed: AtomicBool::new(false) };
        folder.file(MARKER, |_| Ok(()))?;
        Ok(folder)
    }

    /// Where the folder is until it is complete, for writers that need a path. What is written there by other means
    /// than [`ResultsFolder::file`] is not brought to the disk before the folder is renamed.
    pub fn path(&self) -> &Path {
        self.partial.path()
    }

    /// Writes the file `name`, which may lead through subfolders, by `write`, and brings it to the disk. Several threads
    /// may write at once. After an error the folder can no longer be committed: a file of it is missing.
    ///
    /// # Errors
    /// `InvalidInput` if `name` leads out of the folder, `AlreadyExists` if it was written before; what `write` or the
    /// file system says.
    pub fn file(
        &self,
        name: impl AsRef<Path>,
        write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    ) -> io::Result<()> {
        let name = name.as_ref();
        // Set before writing and taken back after it, so that a panic in `write` counts as well.
        let had_failed = self.failed.swap(true, Ordering::Relaxed);
        self.write_inside(name, write).map_err(|error| at(&self.target.join(name), &error))?;
        if !had_failed {
            self.failed.store(false, Ordering::Relaxed);
        }
        Ok(())
    }

    fn write_inside(
        &self,
        name: &Path,
        write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    ) -> io::Result<()> {
        if name.components().next().is_none()
            || !name.components().all(|part| matches!(part, Component::Normal(_)))
        {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a path inside the folder"));
        }
        let path = self.path().join(name);
        fs::create_dir_all(parent(&path))?;
        write_through(OpenOptions::new().write(true).create_new(true).open(path)?, write)
    }

    /// The folder is complete: it gets its name. If it replaces another, that one moves aside for the instant between
    /// two renames, into a hidden folder, and comes back if the second fails.
    ///
    /// # Errors
    /// A file could not be written before; something else came to be at the target; what the file system says.
    pub fn commit(self) -> io::Result<()> {
        if self.failed.load(Ordering::Relaxed) {
            let message =
                format!("{}: not complete: a file of it could not be written", self.target.display());
            return Err(io::Error::other(message));
        }
        check_target(&self.target, self.existing)?;
        sync_folder(self.path());
        self.partial_to_target()?;
        Ok(())
    }

    fn partial_to_target(self) -> io::Result<()> {
        let Self { target, partial, .. } = self;
        if !target.exists() {
            partial.rename_to(&target).map_err(|error| at(&target, &error))?;
            sync_folder(parent(&target));
            return Ok(());
        }
        // The old results are moved into a fresh folder, where nothing can be in the way.
        let (aside, ()) = create_sibling(&target, "replaced", |name| fs::create_dir(name))
            .map_err(|error| at(&target, &error))?;
        let old = aside.join("old");
        let swapped = fs::rename(&target, &old).and_then(|()| {
            partial.rename_to(&target).inspect_err(|_| {
                // Should this fail as well, the old results stay whole under the other name.
                let _ = fs::rename(&old, &target);
            })
        });
        match swapped {
            Ok(()) => {
                sync_folder(parent(&target));
                drop(RemoveOnDrop(Some(aside)));
                Ok(())
            }
            Err(error) => {
                // Only if it is empty: never the old results.
                let _ = fs::remove_dir(&aside);
                Err(at(&target, &error))
            }
        }
    }
}

/// Whether results may come to be at `target`.
fn check_target(target: &Path, existing: Existing) -> io::Result<()> {
    let metadata = match fs::symlink_metadata(target) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(at(target, &error)),
    };
    let refuse =
        |why: &str| Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("{}: {why}", target.display())));
    if existing == Existing::Refuse {
        return refuse("is there already");
    }
    if !metadata.is_dir() {
        return refuse("is there already and is not a folder");
    }
    let is_empty = fs::read_dir(target).map_err(|error| at(target, &error))?.next().is_none();
    if !is_empty && !target.join(MARKER).is_file() {
        return refuse("is there already and holds no results; it is not replaced");
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::io::Write;

    /// A folder for one test, removed after it.
    pub(crate) struct Scratch(pub(crate) PathBuf);

    impl Scratch {
        pub(crate) fn new(test: &str) -> Self {
            let path = std::env::temp_dir().join(format!("tidegate-record-{test}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        /// What is in it, hidden or not.
        pub(crate) fn entries(&self) -> Vec<String> {
            let entry = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
            let mut names: Vec<String> = fs::read_dir(&self.0).unwrap().map(entry).collect();
            names.sort();
            names
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn text(out: &mut BufWriter<File>, text: &str) -> io::Result<()> {
        out.write_all(text.as_bytes())
    }

    #[test]
    fn a_folder_appears_only_when_committed() {
        let scratch = Scratch::new("folder-appears");
        let target = scratch.0.join("deep/results");
        let folder = ResultsFolder::create(&target, Existing::Refuse).unwrap();
        folder.file("summary.json", |out| text(out, "{}")).unwrap();
        folder.file("series/flow.csv", |out| text(out, "1")).unwrap();
        assert!(!target.exists());
        folder.commit().unwrap();
        assert_eq!(fs::read_to_string(target.join("summary.json")).unwrap(), "{}");
        assert_eq!(fs::read_to_string(target.join("series/flow.csv")).unwrap(), "1");
        assert_eq!(fs::read_dir(scratch.0.join("deep")).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_dropped_without_commit_leaves_nothing() {
        let scratch = Scratch::new("folder-dropped");
        let folder = ResultsFolder::create(scratch.0.join("results"), Existing::Refuse).unwrap();
        folder.file("summary.json", |out| text(out, "{}")).unwrap();
        drop(folder);
        assert!(scratch.entries().is_empty());
    }

    #[test]
    fn a_failed_file_keeps_the_folder_from_being_committed() {
        let scratch = Scratch::new("folder-failed");
        let folder = ResultsFolder::create(scratch.0.join("results"), Existing::Refuse).unwrap();
        let error = folder
            .file("summary.json", |out| {
                text(out, "half")?;
                Err(io::Error::from(io::ErrorKind::StorageFull))
            })
            .unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        // A later file that goes well does not make the folder whole.
        folder.file("other.json", |out| text(out, "{}")).unwrap();
        assert!(folder.commit().unwrap_err().to_string().contains("not complete"));
        assert!(scratch.entries().is_empty());
    }

    #[test]
    fn a_panicking_writer_leaves_nothing() {
        let scratch = Scratch::new("folder-panicked");
        let target = scratch.0.join("results");
        let panicked = std::panic::catch_unwind(|| {
            let folder = ResultsFolder::create(&target, Existing::Refuse).unwrap();
            folder.file("summary.json", |_| panic!("in the middle"))
        });
        assert!(panicked.is_err());
        assert!(scratch.entries().is_empty());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_leaves_nothing() {
        let scratch = Scratch::new("folder-full");
        let folder = ResultsFolder::create(scratch.0.join("results"), Existing::Refuse).unwrap();
        // The file is on a device that is always full, and small enough to fail only when it is flushed.
        std::os::unix::fs::symlink("/dev/full", folder.path().join("device")).unwrap();
        let full = OpenOptions::new().write(true).open(folder.path().join("device")).unwrap();
        let error =
            folder.file("summary.json", |_| write_through(full, |out| text(out, "a few bytes"))).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        drop(folder);
        assert!(scratch.entries().is_empty());
        assert!(Path::new("/dev/full").exists());
    }

    #[test]
    fn results_are_replaced_only_when_told() {
        let scratch = Scratch::new("folder-replaced");
        let target = scratch.0.join("results");
        let write = |existing, content: &str| {
            let folder = ResultsFolder::create(&target, existing)?;
            folder.file("summary.json", |out| text(out, content))?;
            folder.commit()
        };
        write(Existing::Refuse, "first").unwrap();
        assert_eq!(write(Existing::Refuse, "second").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(target.join("summary.json")).unwrap(), "first");
        write(Existing::Replace, "third").unwrap();
        assert_eq!(fs::read_to_string(target.join("summary.json")).unwrap(), "third");
        assert_eq!(scratch.entries(), ["results"]);
    }

    #[test]
    fn a_failed_replacement_leaves_the_old_results() {
        let scratch = Scratch::new("folder-kept");
        let target = scratch.0.join("results");
        let first = ResultsFolder::create(&target, Existing::Refuse).unwrap();
        first.file("summary.json", |out| text(out, "first")).unwrap();
        first.commit().unwrap();
        let failed = ResultsFolder::create(&target, Existing::Replace).unwrap();
        failed.file("summary.json", |_| Err(io::Error::other("simulated"))).unwrap_err();
        failed.commit().unwrap_err();
        assert_eq!(fs::read_to_string(target.join("summary.json")).unwrap(), "first");
        // Here the new folder vanishes before it gets its name, so that the second rename fails.
        let vanished = ResultsFolder::create(&target, Existing::Replace).unwrap();
        fs::remove_dir_all(vanished.path()).unwrap();
        vanished.commit().unwrap_err();
        assert_eq!(fs::read_to_string(target.join("summary.json")).unwrap(), "first");
        assert_eq!(scratch.entries(), ["results"]);
    }

    #[test]
    fn a_folder_that_holds_no_results_is_never_replaced() {
        let scratch = Scratch::new("folder-foreign");
        let target = scratch.0.join("home");
        fs::create_dir(&target).unwrap();
        // Empty is harmless.
        ResultsFolder::create(&target, Existing::Replace).unwrap();
        fs::write(target.join("letter.txt"), "dear").unwrap();
        let create = |path: &Path| ResultsFolder::create(path, Existing::Replace).unwrap_err().to_string();
        assert!(create(&target).contains("holds no results"));
        assert!(create(&target.join("letter.txt")).contains("not a folder"));
        assert_eq!(fs::read_to_string(target.join("letter.txt")).unwrap(), "dear");
    }

    #[test]
    fn files_stay_inside_the_folder() {
        let scratch = Scratch::new("folder-inside");
        let target = scratch.0.join("results");
        for name in ["../outside", "/outside", "", ".", "a/../../outside"] {
            let folder = ResultsFolder::create(&target, Existing::Refuse).unwrap();
            let error = folder.file(name, |_| Ok(())).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{name:?}");
        }
        assert!(scratch.entries().is_empty());
    }
}
