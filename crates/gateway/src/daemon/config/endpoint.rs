//! Where another site is, as the file writes it: what can never be reached is said before anybody waits for it; and where a name leads.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU16;

use dns_lookup::{AddrInfoHints, LookupErrorKind, SockType, getaddrinfo};

/// What is right, for people.
const LIKE: &str = "like \"b.example.net:51820\" or \"[2001:db8::1]:51820\"";

/// Whether somebody may be at `text`, for a socket that listens at `listen`, if that is known: else what is wrong, and what is right.
pub(super) fn judge(text: &str, listen: Option<IpAddr>) -> Result<(), (String, String)> {
    let wrong = |why: String| Err((why, LIKE.to_owned()));
    // Else the last part of an address of IPv6 would be taken for a port.
    let bare = text.parse::<Ipv6Addr>().ok().map(|address| (address, "51820"));
    let with_port = || text.rsplit_once(':').and_then(|(host, port)| Some((host.parse().ok()?, port)));
    if let Some((address, port)) = bare.or_else(with_port) {
        let help = format!("\"[{address}]:{port}\"");
        return Err((format!("`{text}`: an address of IPv6 stands in brackets before its port"), help));
    }
    let Some((host, port)) = text.rsplit_once(':') else { return wrong(format!("`{text}` has no port")) };
    if host.is_empty() || port.parse::<NonZeroU16>().is_err() {
        return wrong(format!("`{text}` has no port"));
    }
    let Ok(address) = text.parse::<SocketAddr>() else {
        // Names are asked for while it runs. What they never have is a scheme, a path, or blanks.
        let is_name = host.chars().all(|c| !c.is_whitespace() && !c.is_control() && !"/:[]@".contains(c));
        return if is_name { Ok(()) } else { wrong(format!("`{host}` is no name and no address")) };
    };
    if address.ip().is_unspecified() || address.ip().is_multicast() {
        return wrong(format!("{} is no address of one machine", address.ip()));
    }
    match listen.filter(|&listen| !fits(&address, listen)) {
        Some(listen) => {
            let (here, there) = if address.is_ipv4() { ("IPv6", "IPv4") } else { ("IPv4", "IPv6") };
            let help = "`gateway.listen = \"[::]:51820\"` hears both".to_owned();
            Err((format!("{address} is of {there}, and `gateway.listen` ({listen}) of {here} alone"), help))
        }
        None => Ok(()),
    }
}

/// Whether a socket at `listen` can reach `address`.
pub fn fits(address: &SocketAddr, listen: IpAddr) -> bool {
    match listen {
        IpAddr::V4(_) => address.is_ipv4(),
        IpAddr::V6(any) => any.is_unspecified() || address.is_ipv6(),
    }
}

/// The address that `text` says without anybody being asked, if a socket at `listen` can reach it.
pub fn literal(text: &str, listen: IpAddr) -> Option<SocketAddr> {
    text.parse().ok().filter(|address| fits(address, listen))
}

/// Why a name leads nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nowhere {
    /// It has no address that the socket can reach.
    Unknown,
    /// Nobody can say it now: no resolver is reached, or those that know the name do not answer it. Later they may.
    Unsaid,
}

/// The first address of `name`, with a port as in `endpoint`, that a socket at `listen` can reach. It may take long.
///
/// # Errors
/// When there is none, or none now.
pub fn resolve(name: &str, listen: IpAddr) -> Result<SocketAddr, Nowhere> {
    let (host, port) = name.rsplit_once(':').ok_or(Nowhere::Unknown)?;
    let port = port.parse().map_err(|_| Nowhere::Unknown)?;
    let hints = AddrInfoHints { socktype: SockType::DGram.into(), ..AddrInfoHints::default() };
    let answers = getaddrinfo(Some(host), None, Some(hints)).map_err(|why| match why.kind() {
        // What a machine lacks itself, descriptors or memory, says nothing of the name.
        LookupErrorKind::Again | LookupErrorKind::Memory | LookupErrorKind::System => Nowhere::Unsaid,
        _ => Nowhere::Unknown,
    })?;
    let mut places = answers.flatten().map(|mut answer| {
        answer.sockaddr.set_port(port);
        answer.sockaddr
    });
    places.find(|address| fits(address, listen)).ok_or(Nowhere::Unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_can_never_be_reached_is_refused_and_who_may_be_is_not() {
        let everywhere = Some(IpAddr::V6(Ipv6Addr::UNSPECIFIED));
        for right in
            ["b.example.net:51820", "192.0.2.1:1", "[2001:db8::1]:51820", "[fe80::1%2]:51820", "h_1:9"]
        {
            assert_eq!(judge(right, everywhere), Ok(()), "{right}");
        }
        let cases = [
            ("2001:db8::1", "\"[2001:db8::1]:51820\""),
            ("2001:db8::1:51820", "\"[2001:db8::1]:51820\""),
            ("2001:db8:1:2:3:4:5:6:51820", "\"[2001:db8:1:2:3:4:5:6]:51820\""),
            ("[2001:db8::1]", "like"),
            ("[fe80::1%eth0]:51820", "like"),
            ("https://b.example.net:51820", "like"),
            (" b.example.net:51820", "like"),
            ("b.example.net:0", "like"),
            ("0.0.0.0:51820", "like"),
            ("[ff02::1]:51820", "like"),
        ];
        for (wrong, expected) in cases {
            let (why, help) = judge(wrong, everywhere).unwrap_err();
            assert!(help.contains(expected), "{wrong}: {why} ({help})");
        }
        for (end, listen) in [("192.0.2.1:1", "2001:db8::7"), ("[2001:db8::1]:1", "0.0.0.0")] {
            let (why, help) = judge(end, listen.parse().ok()).unwrap_err();
            assert!(why.contains(listen) && help.contains("[::]"), "{why} ({help})");
            assert_eq!(judge(end, None), Ok(()));
        }
    }
}
