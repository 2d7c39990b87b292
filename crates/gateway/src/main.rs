//! `tidegate-gateway`, and under that name `tidegatectl`.

use std::process::ExitCode;

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    ExitCode::from(tidegate_gateway::daemon::program::main(std::env::args_os()))
}

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    eprintln!("tidegate-gateway needs Linux");
    ExitCode::FAILURE
}
