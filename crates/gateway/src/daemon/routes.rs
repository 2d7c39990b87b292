//! Addresses and routes, by `ip` of iproute2.
//!
//! Each network of another site has two routes: one over the device, and, unless the operator wants it open, one just behind it that
//! drops. The kernel takes the first away with the device, whenever and however the daemon ends; the second stays, so that
//! nothing leaves in clear text by another way.

use std::io;
use std::process::Command;

use ipnet::IpNet;

/// Of both routes; the lower goes first. Routes without one, of IPv4, go before both: they are the operator's own word.
const METRIC_OVER: &str = "10";
const METRIC_CLOSED: &str = "11";

fn ip(arguments: &[&str]) -> io::Result<()> {
    let output = Command::new("ip").args(arguments).output().map_err(|why| {
        if why.kind() == io::ErrorKind::NotFound {
            io::Error::other("`ip` is missing; install iproute2")
        } else {
            why
        }
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("Operation not permitted") {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    Err(io::Error::other(format!("`ip {}`: {}", arguments.join(" "), said.trim())))
}

const fn family(network: &IpNet) -> &'static str {
    match network {
        IpNet::V4(_) => "-4",
        IpNet::V6(_) => "-6",
    }
}

/// From now on packets for `networks` are dropped where no better route is.
///
/// # Errors
/// When the system refuses it.
pub fn close(networks: &[IpNet]) -> io::Result<()> {
    for network in networks {
        ip(&[
            family(network),
            "route",
            "replace",
            "blackhole",
            &network.to_string(),
            "metric",
            METRIC_CLOSED,
        ])?;
    }
    Ok(())
}

/// The opposite; routes that are not there are no failure.
pub fn open(networks: &[IpNet]) {
    for network in networks {
        let _ = ip(&[
            family(network),
            "route",
            "del",
            "blackhole",
            &network.to_string(),
            "metric",
            METRIC_CLOSED,
        ]);
    }
}

/// The largest packet of `device`.
///
/// # Errors
/// When the system refuses it.
pub fn set_mtu(device: &str, mtu: u16) -> io::Result<()> {
    ip(&["link", "set", "dev", device, "mtu", &mtu.to_string()])
}

/// `device` gets `addresses`, and what is for `networks` goes there.
///
/// # Errors
/// When the system refuses it.
pub fn set_up(device: &str, addresses: &[IpNet], networks: &[IpNet]) -> io::Result<()> {
    for address in addresses {
        let text = address.to_string();
        let mut arguments = vec![family(address), "address", "replace", &text, "dev", device];
        if matches!(address, IpNet::V6(_)) {
            arguments.push("nodad");
        }
        ip(&arguments)?;
    }
    ip(&["link", "set", device, "up"])?;
    for network in networks {
        let text = network.to_string();
        ip(&[family(network), "route", "replace", &text, "dev", device, "metric", METRIC_OVER])?;
    }
    Ok(())
}
