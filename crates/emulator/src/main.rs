//! `tidegate-emulate`: what `tidegate emulate` and `tidegate replay` run, without an interpreter.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(tidegate_emulator::program::run(std::env::args_os()))
}
