//! Tests of files as a whole: one program, for each takes its time to link.

mod experiments;
mod experiments_folder;
mod golden;
mod never_panics;
mod scenarios;
