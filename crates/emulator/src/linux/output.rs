//! What commands print while the live view has the terminal: kept in a file without a name, and printed when it has gone.

use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::fcntl::OFlag;

use super::error::Failure;

/// Nobody else reads it.
const MODE: u32 = 0o600;

/// See the module.
#[derive(Debug)]
pub struct Kept(File);

/// An empty file in `folder` that has no name, and never has one that could be foreseen.
fn nameless(folder: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).mode(MODE);
    let unnamed = options.clone().custom_flags((OFlag::O_TMPFILE | OFlag::O_EXCL).bits()).open(folder);
    if unnamed.is_ok() {
        return unnamed;
    }
    // Some file systems have none.
    let path = folder.join(format!("tidegate-{:016x}.out", RandomState::new().hash_one(std::process::id())));
    let file = options.create_new(true).open(&path)?;
    // It goes with the last who has it open.
    fs::remove_file(&path)?;
    Ok(file)
}

impl Kept {
    /// An empty one.
    ///
    /// # Errors
    /// When there is no room for temporary files.
    pub fn new() -> Result<Self, Failure> {
        let file = nameless(&std::env::temp_dir());
        file.map(Self).map_err(|why| Failure::system("the output of commands cannot be kept", why))
    }

    /// For a command to write to.
    ///
    /// # Errors
    /// When the system refuses it.
    pub fn share(&self) -> Result<File, Failure> {
        self.0.try_clone().map_err(|why| Failure::system("the output of commands cannot be kept", why))
    }

    /// Prints all of it.
    ///
    /// # Errors
    /// When it cannot be read or written.
    pub fn print(mut self, mut out: impl io::Write) -> io::Result<()> {
        self.0.seek(SeekFrom::Start(0))?;
        io::copy(&mut self.0, &mut out)?;
        out.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn what_is_kept_has_no_name_and_is_read_by_nobody_else() {
        // The name that it had before was foreseen by whoever knew the number of the process.
        let taken = std::env::temp_dir().join(format!("tidegate-{}.out", std::process::id()));
        fs::write(&taken, "theirs").unwrap();
        let kept = Kept::new().unwrap();
        let found = kept.0.metadata().unwrap();
        assert_eq!((found.mode() & 0o777, found.nlink()), (MODE, 0));
        kept.share().unwrap().write_all(b"one ").unwrap();
        kept.share().unwrap().write_all(b"two").unwrap();
        let mut out = Vec::new();
        kept.print(&mut out).unwrap();
        assert_eq!(out, b"one two");
        fs::remove_file(&taken).unwrap();
    }
}
