//! Gateways on a simulated network: the very core of the daemon, over links that lose, reorder, repeat, spoil and delay, with
//! clocks that are wrong, machines that restart, and peers that lie, exhaust or fall silent.
//!
//! A [`case::Case`] is drawn from a seed, or written by hand. [`world::World`] runs it: the network between gateways is that of
//! `tidegate-engine`, [`hosts`] behind them load it with packets of real bytes. [`judge`] says what did not hold. This is the only crate
//! that knows both engine and gateway.

pub mod case;
mod clock;
pub mod hosts;
pub mod judge;
mod network;
pub mod world;
