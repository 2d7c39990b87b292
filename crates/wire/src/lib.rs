//! Real packets as bytes, for every world that has them: the emulator and a gateway.
//!
//! The bytes come from a device. With segmentation offload several packets come as one, which `offload` takes apart into buffers
//! of a [`Pool`]. [`ip`] reads their headers; what a mechanism decides, it writes back and corrects the checksums. A
//! [`flows::FlowTable`] says which flow a packet belongs to. What leaves goes to a device again, joined by `offload` where
//! packets of a connection follow each other; to what cannot go on there is an answer ([`icmp`]), or it goes on in pieces ([`fragment`]). What came in and what was decided can be kept in a [`recording`], from which
//! another world reads it to decide it once more.
//!
//! There is no clock here and no device: the world around it owns both. The one thread is that which writes recordings. What ties a recording to a scenario is the emulator's.

pub mod flows;
pub mod fragment;
pub mod icmp;
pub mod ip;
#[cfg(target_os = "linux")]
pub mod offload;
mod pool;
pub mod recording;

pub use pool::{Buffer, Pool};
