//! A folder of results takes its name at once and whole, on the disk before it has the name.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use crate::file::{at, parent, sync_folder};

/// Brings all of the folder `new` to the disk and gives it the name `target`. A folder that had this name is exchanged with it in
/// one step where the system can do that, and removed; elsewhere it moves aside for the instant between two renames, and comes
/// back if the second fails. What may be replaced is the caller's to decide.
///
/// # Errors
/// What the file system says, with the path; then what was at `target` is there, and `new` as well.
pub fn replace_folder(new: &Path, target: &Path) -> io::Result<()> {
    sync_tree(new).map_err(|error| at(target, &error))?;
    if fs::symlink_metadata(target).is_err() {
        fs::rename(new, target).map_err(|error| at(target, &error))?;
        sync_folder(parent(target));
        return Ok(());
    }
    if !exchange(new, target).map_err(|error| at(target, &error))? {
        let aside = new.with_extension("old");
        fs::rename(target, &aside)
            .and_then(|()| {
                fs::rename(new, target).inspect_err(|_| {
                    // Should this fail as well, the old folder stays whole under the other name.
                    let _ = fs::rename(&aside, target);
                })
            })
            .map_err(|error| at(target, &error))?;
        fs::rename(&aside, new).map_err(|error| at(new, &error))?;
    }
    sync_folder(parent(target));
    // What had the name before has the other one now. If it cannot be removed, the next one to write here sweeps it.
    let _ = fs::remove_dir_all(new);
    Ok(())
}

/// Exchanges the names of two folders; whether this system can.
#[cfg(target_os = "linux")]
fn exchange(one: &Path, other: &Path) -> io::Result<bool> {
    use nix::errno::Errno;
    use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
    match renameat2(AT_FDCWD, one, AT_FDCWD, other, RenameFlags::RENAME_EXCHANGE) {
        Ok(()) => Ok(true),
        // Some file systems cannot.
        Err(Errno::EINVAL | Errno::ENOSYS | Errno::EOPNOTSUPP) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(target_os = "linux"))]
fn exchange(_: &Path, _: &Path) -> io::Result<bool> {
    Ok(false)
}

/// Brings a folder and all in it to the disk. Links are what they are.
fn sync_tree(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            sync_tree(&entry.path())?;
        } else if kind.is_file() {
            File::open(entry.path())?.sync_all()?;
        }
    }
    sync_folder(folder);
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::path::PathBuf;

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

    fn folder(path: &Path, content: &str) {
        fs::create_dir_all(path.join("inner")).unwrap();
        fs::write(path.join("inner/file"), content).unwrap();
    }

    #[test]
    fn a_folder_takes_a_name_that_is_free_and_the_place_of_one_that_is_not() {
        let scratch = Scratch::new("folder-replace");
        let (new, target) = (scratch.0.join(".results.tmp"), scratch.0.join("results"));
        for content in ["first", "second"] {
            folder(&new, content);
            replace_folder(&new, &target).unwrap();
            assert_eq!(fs::read_to_string(target.join("inner/file")).unwrap(), content);
            assert_eq!(scratch.entries(), ["results"]);
        }
    }

    #[test]
    fn after_an_error_both_are_where_they_were() {
        let scratch = Scratch::new("folder-error");
        let target = scratch.0.join("results");
        folder(&target, "old");
        let error = replace_folder(&scratch.0.join("missing"), &target).unwrap_err();
        assert!(error.to_string().contains("results"), "{error}");
        assert_eq!(fs::read_to_string(target.join("inner/file")).unwrap(), "old");
        let new = scratch.0.join("new");
        folder(&new, "new");
        assert!(replace_folder(&new, &scratch.0.join("no/such/parent")).is_err());
        assert_eq!(fs::read_to_string(new.join("inner/file")).unwrap(), "new");
    }
}
