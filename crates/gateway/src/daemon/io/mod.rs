//! What touches the machine: the clock, the device, the sockets.

pub mod clock;
pub mod steer;
pub mod tun;
pub mod udp;
