//! A real host: a namespace with one device that leads into the simulated network.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;

use netconfig_rs::Interface;
use netconfig_rs::sys::InterfaceExt;
use tidegate_units::Time;
use tidegate_wire::offload::Outbox;
use tun_rs::{DeviceBuilder, SyncDevice};

use super::error::Failure;
use super::namespace::Namespace;
use crate::address;

/// The device's name in the namespace.
pub const DEVICE: &str = "tide0";
/// Packets that the device keeps for us; further ones are lost before they reach the network, which is the host's own queue.
pub const DEVICE_QUEUE_PACKETS: u32 = 1000;

/// See the module.
pub struct Host {
    /// Its name in the scenario.
    pub name: String,
    /// Its node in the scenario.
    pub node: u32,
    /// Where its processes run.
    pub namespace: Namespace,
    /// Whether it has an address of IPv6: some systems have switched that off.
    pub has_ipv6: bool,
    device: SyncDevice,
    /// The counters of the devices of its namespace: those of where the file was opened, whoever reads it.
    counters: File,
    /// What is handed over as one, with segmentation offload.
    outbox: Option<Outbox>,
}

/// What became of a packet for a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Written {
    /// The host was given it; whether it took it.
    Now(bool),
    /// It waits for others, until [`Host::flush`].
    Kept,
    /// It does not go with what waits already: flush, and try again.
    Full,
}

/// How hosts are set up.
#[derive(Clone, Copy, Debug)]
pub struct HostOptions<'a> {
    /// Largest packet.
    pub mtu: u16,
    /// What TCP uses.
    pub congestion_control: &'a str,
    /// Whether many packets are read and written as one.
    pub offload: bool,
}

impl Host {
    /// Makes the namespace and the device of node `node`.
    ///
    /// # Errors
    /// When the system refuses something.
    pub fn create(run: u32, name: &str, node: u32, options: &HostOptions<'_>) -> Result<Self, Failure> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        // A name for a file: short, and nothing but plain characters; with another one where it is no host's own.
        let is_short = name.len() <= 64 && name.chars().all(is_plain);
        let label = if is_short { name.to_owned() } else { format!("n.{node}") };
        let namespace_name = format!("{}{run}-{label}", super::namespace::PREFIX);
        let (namespace, (device, counters, has_ipv6)) = Namespace::create(&namespace_name, || {
            let (device, has_ipv6) = prepare(node, options)?;
            let counters = File::open("/proc/thread-self/net/dev")
                .map_err(|why| Failure::system("the counters of devices cannot be read", why))?;
            Ok((device, counters, has_ipv6))
        })?;
        let outbox = options.offload.then(Outbox::default);
        Ok(Self { name: name.to_owned(), node, namespace, has_ipv6, device, counters, outbox })
    }

    /// Packets of the host that its device has dropped because nobody read them in time.
    pub fn dropped_packets(&self) -> u64 {
        let mut text = [0; 4096];
        let length = self.counters.read_at(&mut text, 0).unwrap_or(0);
        // The host may have given it another name.
        let device = self.device.name().unwrap_or_default();
        dropped(&String::from_utf8_lossy(&text[..length]), &device).unwrap_or(0)
    }

    /// Reads a packet into `room`; `None` if there is none.
    ///
    /// # Errors
    /// When the device is broken.
    pub fn read(&self, room: &mut [u8]) -> Result<Option<usize>, Failure> {
        match self.device.recv(room) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(why) if is_temporary(&why) => Ok(None),
            Err(why) => Err(Failure::system(format!("the device of host {} cannot be read", self.name), why)),
        }
    }

    /// Gives the host a packet that was due at `due`.
    pub fn write(&mut self, packet: &[u8], due: Time) -> Written {
        match &mut self.outbox {
            None => Written::Now(self.device.send(packet).is_ok()),
            Some(outbox) => {
                if outbox.add(packet, due) {
                    Written::Kept
                } else {
                    Written::Full
                }
            }
        }
    }

    /// Gives the host what was kept to be handed over as one; `told` hears of each packet when it was due, and whether the host
    /// took it.
    pub fn flush(&mut self, mut told: impl FnMut(Time, bool)) {
        if let Some(outbox) = self.outbox.as_mut().filter(|outbox| !outbox.is_empty()) {
            let is_taken = self.device.send(outbox.packet()).is_ok();
            outbox.dues.drain(..).for_each(|due| told(due, is_taken));
            outbox.clear();
        }
    }

    /// For waiting.
    pub fn descriptor(&self) -> std::os::fd::BorrowedFd<'_> {
        std::os::fd::AsFd::as_fd(&self.device)
    }
}

/// Of the counters as `/proc/net/dev` shows them: what `device` dropped of what it was to send.
fn dropped(counters: &str, device: &str) -> Option<u64> {
    let line = counters.lines().find_map(|line| line.trim().strip_prefix(device)?.strip_prefix(':'))?;
    // Eight columns of what it received; then bytes, packets, errors and drops of what it was to send.
    line.split_whitespace().nth(11)?.parse().ok()
}

fn is_temporary(why: &std::io::Error) -> bool {
    matches!(why.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted)
}

/// The same error as the standard library has it, so that missing rights are known as such.
fn plain(why: netconfig_rs::Error) -> std::io::Error {
    match why {
        netconfig_rs::Error::Io(why) => why,
        netconfig_rs::Error::Unknown(why) if why.to_string().starts_with("EPERM") => {
            std::io::ErrorKind::PermissionDenied.into()
        }
        other => std::io::Error::other(other.to_string()),
    }
}

/// In a fresh namespace: the loopback device, the protocol's settings, and our device; and whether
/// there is IPv6.
fn prepare(node: u32, options: &HostOptions<'_>) -> Result<(SyncDevice, bool), Failure> {
    let congestion_control = options.congestion_control;
    let loopback = Interface::try_from_name("lo").and_then(|lo| lo.set_up(true));
    loopback.map_err(|why| Failure::of_root("the loopback device cannot be switched on", plain(why)))?;
    set("net/ipv4/tcp_congestion_control", congestion_control)
        .map_err(|why| no_congestion_control(congestion_control, why))?;
    // What one connection learnt of the path must not reach the next: runs would depend on their order.
    set("net/ipv4/tcp_no_metrics_save", "1")
        .map_err(|why| Failure::system("TCP's cache cannot be switched off", why))?;
    // Without a link-local address and without soliciting routers, an idle host sends nothing. Where there is no IPv6
    // these are missing, or it is switched off, and so is the address below.
    let is_off = |scope| is_set(&format!("net/ipv6/conf/{scope}/disable_ipv6"));
    let has_ipv6 =
        set("net/ipv6/conf/default/addr_gen_mode", "1").is_ok() && !is_off("all") && !is_off("default");
    let _ = set("net/ipv6/conf/default/router_solicitations", "0");
    let mut builder = DeviceBuilder::new().name(DEVICE).mtu(options.mtu).ipv4(
        address::ipv4(node),
        address::IPV4_PREFIX_BITS,
        None,
    );
    if has_ipv6 {
        builder = builder.ipv6(address::ipv6(node), address::IPV6_PREFIX_BITS);
    }
    let device = builder
        .tx_queue_len(DEVICE_QUEUE_PACKETS)
        .with(|builder| {
            builder.offload(options.offload);
        })
        .build_sync()
        .map_err(|why| Failure::of_root("the TUN device cannot be made (is the module `tun` there?)", why))?;
    device.set_nonblocking(true).map_err(|why| Failure::system("the TUN device cannot be used", why))?;
    Ok((device, has_ipv6))
}

/// Root may be refused as well: Linux has only what its administrator allows as the default of a namespace.
fn no_congestion_control(name: &str, why: std::io::Error) -> Failure {
    let allowed = fs::read_to_string("/proc/sys/net/ipv4/tcp_allowed_congestion_control").unwrap_or_default();
    let allowed = allowed.trim();
    if why.kind() != std::io::ErrorKind::PermissionDenied || allowed.is_empty() {
        return Failure::system(format!("TCP cannot use the congestion control `{name}`"), why);
    }
    Failure::usage(format!(
        "this kernel allows as congestion control of a host: {allowed}. Choose `{name}` for single connections (iperf3 -C \
         {name}), or allow it: sysctl net.ipv4.tcp_allowed_congestion_control='{allowed} {name}'"
    ))
}

/// Whether there is a number other than zero.
fn is_set(key: &str) -> bool {
    fs::read_to_string(format!("/proc/sys/{key}")).is_ok_and(|text| text.trim() != "0")
}

fn set(key: &str, value: &str) -> std::io::Result<()> {
    fs::write(format!("/proc/sys/{key}"), value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_read_from_the_line_of_our_device() {
        let text = "Inter-|   Receive  |  Transmit\n face |bytes packets errs drop\n\
                        lo:     1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n\
                     tide0: 3450 12 0 1 0 0 0 0 4410000 3675 0 1325 0 0 0 0\n";
        assert_eq!(dropped(text, DEVICE), Some(1325));
        for broken in ["", "tide0:", "tide0: 1 2 3", "tide01: 1 2 3 4 5 6 7 8 9 10 11 12 13"] {
            assert_eq!(dropped(broken, DEVICE), None, "{broken}");
        }
    }
}
