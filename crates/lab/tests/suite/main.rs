//! The tests of runs as a whole. They are one program, but for `own`, which closes the registry of mechanisms: what a simulation is made
//! of is generic, and each program that runs one compiles all of it anew.

mod compare;
mod compositions;
mod fixed_window;
mod fluid;
mod golden;
mod ranges;
mod summary;
