//! What commands print while the live view has the terminal: kept in a file without a name, and printed when it has gone.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};

use super::error::Failure;

/// See the module.
#[derive(Debug)]
pub struct Kept(File);

impl Kept {
    /// An empty one.
    ///
    /// # Errors
    /// When there is no room for temporary files.
    pub fn new() -> Result<Self, Failure> {
        let refused = |why| Failure::system("the output of commands cannot be kept", why);
        let path = std::env::temp_dir().join(format!("tidegate-{}.out", std::process::id()));
        let mut options = File::options();
        let file = options.read(true).append(true).create_new(true).open(&path).map_err(refused)?;
        // It goes with the last who has it open.
        std::fs::remove_file(&path).map_err(refused)?;
        Ok(Self(file))
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
