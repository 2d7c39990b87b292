//! The tests of emulations as a whole. They are one program: what a simulation is made of is generic, and each program that runs one
//! compiles all of it anew.

mod answers;
mod parity;
