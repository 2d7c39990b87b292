//! What a run leaves behind: packet traces, tables of time series, folders of results.
//!
//! Nothing here looks whole before it is: files and folders are written under another name and renamed when they are
//! complete. Nothing here reads a clock or depends on the machine: the same run gives the same bytes.

mod file;
mod folder;
mod pcapng;
mod table;

pub use file::{PendingFile, write_file};
pub use folder::replace_folder;
pub use pcapng::{Capture, PcapTrace};
pub use table::{Series, to_record_batches, write_parquet};
