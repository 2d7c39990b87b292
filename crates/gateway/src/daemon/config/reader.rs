//! From the tables of the file to a plan: what keys mean together, and what is wrong with them.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use indexmap::IndexMap;
use ipnet::IpNet;
use tidegate_document::error::Problems;
use tidegate_document::tree::Table;
use tidegate_document::{ConfigError, Site, suggest};
use tidegate_mechanism::edge::EdgeConfig;
use tidegate_mechanism::edge::nbp::RoundTrip;
use tidegate_mechanism::queue::{CodelConfig, ManagerConfig};
use tidegate_mechanism::schedule::{DisciplineConfig, FlowQueueingConfig, FqCodelConfig, PriorityConfig};
use tidegate_packet::Dscp;
use tidegate_parameters::Report;
use tidegate_units::{BitRate, Limit, Span};

use super::super::rounds::Pace;
use super::{
    ClassTable, Control, DEVICE_BYTES_MAX, File, GatewayTable, OTHER_CLASS, PeerPlan, Plan, Recorded,
    SiteTable, WhenStopped, Written, decode_key, endpoint,
};
use crate::core::config::{ClassConfig, GatewayConfig, LINKS_MAX, SiteConfig};
use crate::tunnel::wireguard::{is_somebodys, site_id};

/// What is read, and what is wrong with it.
pub(super) struct Reader<'a> {
    pub site: Site<'a>,
    pub problems: &'a mut Problems,
    /// Where datagrams come in, once that is read.
    pub listen: Option<IpAddr>,
    /// Whether it is a recording's: networks may be what is left of wide ones, without those of other sites, and what an earlier version of
    /// the program took is taken.
    pub is_recorded: bool,
    /// The place in the file of what stands at these keys.
    pub written: &'a dyn Fn(&[&str]) -> ConfigError,
}

/// Whether a letter moves what is written beside it, and is not seen: control, and marks of the direction of writing.
fn is_unseen(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

impl Reader<'_> {
    fn say(&mut self, keys: &[&str], message: impl Into<String>, help: impl Into<String>) {
        let problem = self.site.problem(keys, message, help);
        self.problems.push(problem);
    }

    /// Of a site.
    fn check_name(&mut self, name: &str) {
        if name.is_empty() || name.chars().any(is_unseen) {
            let shown = name.escape_default();
            let message = format!("\"{shown}\" is no name: logs and terminals show it, and obey it");
            self.say(&["sites"], message, "letters and digits, like \"berlin\"");
        }
    }

    fn check(&mut self, keys: &[&str], table: &impl tidegate_parameters::Parameters) {
        let (site, problems) = (self.site, &mut *self.problems);
        let mut sink = |below: &[&str], message: String, help: &str| {
            let all: Vec<&str> = keys.iter().chain(below).copied().collect();
            problems.push(site.problem(&all, message, help));
        };
        table.check(&mut Report::new(&mut sink));
    }

    /// A value that stands at `keys` as text.
    fn parse<T: std::str::FromStr>(
        &mut self,
        keys: &[&str],
        text: &str,
        what: &str,
        example: &str,
    ) -> Option<T> {
        let parsed = text.parse().ok();
        if parsed.is_none() {
            self.say(keys, format!("`{text}` is no {what}"), format!("like \"{example}\""));
        }
        parsed
    }

    /// Rates that are no tables are wrong in a way of their own: what is wanted is shown by what stands there.
    pub fn rates_alone(&mut self) {
        let sites = self.site.tree.as_table().and_then(|root| root.get("sites")?.as_table());
        for (name, entry) in sites.into_iter().flat_map(Table::iter) {
            let rate = entry.tree.as_table().and_then(|site| site.get("rate"));
            let Some(alone) = rate.filter(|one| one.as_table().is_none()) else { continue };
            let is_rate = |text: &&str| text.parse::<BitRate>().is_ok_and(|one| one >= BitRate::from_mbps(2));
            let max = alone.as_text().filter(is_rate).unwrap_or("20Mbit");
            self.say(
                &["sites", name, "rate"],
                "is a table of `floor`, `max` and `fallback`, and no rate alone",
                format!("like {{ max = \"{max}\" }}, or {{ floor = \"1Mbit\", max = \"{max}\", fallback = \"2Mbit\" }}"),
            );
        }
    }

    pub fn plan(&mut self, file: &File) -> Option<Plan> {
        let gateway = &file.gateway;
        self.check(&["gateway"], gateway);
        let status = file.status.clone().unwrap_or_default();
        let fail = file.fail.unwrap_or_default();
        let listen = self.parse(&["gateway", "listen"], &gateway.listen, "address with a port", "[::]:51820");
        self.listen = listen.map(|at: SocketAddr| at.ip());
        self.names_something(gateway, listen);
        let addresses: Vec<IpNet> = gateway
            .address
            .iter()
            .filter_map(|text| {
                self.parse(&["gateway", "address"], text, "address with a length", "10.9.0.1/24")
            })
            .collect();
        if !self.is_recorded {
            self.judge_addresses(&addresses);
        }
        let device = &gateway.device;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if device.is_empty()
            || device.len() > DEVICE_BYTES_MAX
            || !device.chars().all(is_plain)
            || device.starts_with('.')
        {
            self.say(
                &["gateway", "device"],
                format!("`{device}` is no name of a device"),
                "up to 15 letters and digits",
            );
        }
        let status = if status.listen.is_empty() {
            None
        } else {
            let address: Option<SocketAddr> =
                self.parse(&["status", "listen"], &status.listen, "address with a port", "127.0.0.1:9586");
            if address.is_some_and(|address| address.port() == 0) {
                self.say(&["status", "listen"], "has no port", "like \"127.0.0.1:9586\"; \"\" for no page");
            }
            if address.is_some_and(|address| !address.ip().is_loopback()) {
                self.say(
                    &["status", "listen"],
                    "is seen from elsewhere, and whoever asks is answered",
                    "an address of the machine itself, like \"127.0.0.1:9586\"; others see it by a proxy that knows them",
                );
            }
            address
        };
        let classes = self.classes(&file.classes);
        let names: Vec<&str> = file.sites.keys().map(String::as_str).collect();
        let mut sites = Vec::new();
        let mut peers = Vec::new();
        for (name, table) in &file.sites {
            if let Some((mut site, peer)) = self.read_site(name, table, &names, !classes.is_empty()) {
                fill_rounds(&mut site, gateway.together);
                sites.push(site);
                peers.push(peer);
            }
        }
        self.compare(file, &names);
        let of_site = |name: &str| {
            ["public_key", "preshared_key_file", "endpoint"].map(|key| (self.written)(&["sites", name, key]))
        };
        let written = Written {
            private_key_file: (self.written)(&["gateway", "private_key_file"]),
            buffers: (self.written)(&["gateway", "buffers"]),
            sites: sites.iter().map(|site: &SiteConfig| of_site(&site.name)).collect(),
        };
        if file.sites.is_empty() {
            self.say(&["gateway"], "there is no site to go to", "a table like [sites.b] with its public_key");
        }
        let of_v4 = |net: &IpNet| if let IpAddr::V4(address) = net.addr() { Some(address) } else { None };
        let of_v6 = |net: &IpNet| if let IpAddr::V6(address) = net.addr() { Some(address) } else { None };
        Some(Plan {
            private_key_file: gateway.private_key_file.clone(),
            listen: listen?,
            device: gateway.device.clone(),
            user: gateway.user.clone(),
            socket: gateway.socket.clone(),
            threads: gateway.threads,
            pace: Pace { together: gateway.together, busy_poll: gateway.busy_poll },
            state: Some(&gateway.state).filter(|path| !path.is_empty()).map(PathBuf::from),
            status,
            is_closed: fail.daemon_stops == WhenStopped::Closed,
            peers,
            recorded: Recorded::new(self.site.tree),
            written,
            core: GatewayConfig {
                id: 0,
                address4: addresses.iter().find_map(of_v4),
                address6: addresses.iter().find_map(of_v6),
                sites,
                classes,
                buffers: gateway.buffers,
                mtu: gateway.mtu,
                flows: gateway.flows,
                relay: gateway.relay.clone(),
                seed: 0,
            },
            addresses,
        })
    }

    /// What others must find has a port and a file.
    fn names_something(&mut self, gateway: &GatewayTable, listen: Option<SocketAddr>) {
        if listen.is_some_and(|at| at.port() == 0) {
            // Other sites, firewalls and all packet threads must know it, and after a restart it would be another.
            let help = "one that other sites can know, like \"[::]:51820\"";
            self.say(&["gateway", "listen"], "has no port", help);
        }
        if let Some(at) = listen.filter(|at| at.ip().is_multicast()) {
            let message = format!("{} is no address of one machine", at.ip());
            self.say(&["gateway", "listen"], message, "like \"[::]:51820\"");
        }
        if gateway.socket.trim().is_empty() {
            let help = format!("like \"{}\"", super::super::DEFAULT_SOCKET);
            self.say(&["gateway", "socket"], "names no file", help);
        }
    }

    /// The own addresses inside.
    fn judge_addresses(&mut self, addresses: &[IpNet]) {
        let help = "one of a network that nobody else has, like \"10.9.0.1/24\"";
        let keys = ["gateway", "address"];
        for (at, one) in addresses.iter().enumerate() {
            let ip = one.addr();
            // A network of two addresses or one has none that are not a machine's; one of IPv6 has no broadcasts.
            let has_others = one.max_prefix_len() - one.prefix_len() > 1;
            if special(&IpNet::from(ip)).is_some() {
                self.say(&keys, format!("{one} is no address of one machine"), help);
            } else if has_others && ip == one.network() {
                self.say(&keys, format!("{one} is a network, and no address in it"), help);
            } else if has_others && ip.is_ipv4() && ip == one.broadcast() {
                self.say(&keys, format!("{one} is the broadcast of its network"), help);
            } else if addresses[..at].iter().any(|other| other.addr() == ip) {
                self.say(&keys, format!("{ip} is there twice"), "once");
            }
        }
    }

    fn classes(&mut self, tables: &IndexMap<String, ClassTable>) -> Vec<ClassConfig> {
        let mut classes: Vec<ClassConfig> = Vec::new();
        for (name, table) in tables {
            let keys = ["classes", name.as_str()];
            self.check(&keys, table);
            let same = classes.iter().find(|other| other.class == table.priority);
            if let Some(other) = same.filter(|other| table.own_link.is_some() || other.own_link.is_some()) {
                let message =
                    format!("class `{}` has this priority too, and links are told apart by it", other.name);
                self.say(&["classes", name, "priority"], message, "one that no other class has");
            }
            if table.own_link.is_some() && table.priority == OTHER_CLASS {
                self.say(
                    &["classes", name, "priority"],
                    "is that of what fits no class",
                    "0 to 3, or 5 to 7, for a link of its own",
                );
            }
            classes.push(ClassConfig {
                name: name.clone(),
                dscp: table.dscp.iter().map(|&one| Dscp::new(one)).collect(),
                ports: table.ports.clone(),
                class: table.priority,
                own_link: table.own_link.map(Dscp::new),
                marker: table.marker.clone(),
            });
        }
        if classes.iter().filter(|class| class.own_link.is_some()).count() >= LINKS_MAX {
            self.say(
                &["classes"],
                format!("there are more than {} links of their own", LINKS_MAX - 1),
                "let classes share",
            );
        }
        if !classes.is_empty() {
            classes.push(ClassConfig {
                name: "other".to_owned(),
                dscp: std::iter::empty().collect(),
                ports: Vec::new(),
                class: OTHER_CLASS,
                own_link: None,
                marker: None,
            });
        }
        classes
    }

    fn read_site(
        &mut self,
        name: &str,
        table: &SiteTable,
        names: &[&str],
        has_classes: bool,
    ) -> Option<(SiteConfig, PeerPlan)> {
        self.check_name(name);
        self.check(&["sites", name], table);
        let key = |last| ["sites", name, last];
        let public = decode_key(&table.public_key);
        if public.is_none() {
            self.say(&key("public_key"), "is no key", "44 characters, as `tidegatectl keygen` shows them");
        }
        if public.is_some_and(|public| !is_somebodys(&public)) {
            let help = "the one that `tidegatectl keygen` showed at the other site";
            self.say(&key("public_key"), "is nobody's: everybody could make a session with it", help);
        }
        if let Some(endpoint) = &table.endpoint
            && let Err((why, help)) = endpoint::judge(endpoint, self.listen)
        {
            self.say(&key("endpoint"), why, help);
        }
        let networks = table.networks.iter().filter_map(|text| {
            let network: IpNet = self.parse(&key("networks"), text, "network", "10.2.0.0/24")?;
            if network != network.trunc() {
                // `ip route` refuses it as well. Where it was meant as one host, all of the network would be taken.
                let message = format!("{network} is an address in a network, and no network");
                let host = IpNet::from(network.addr());
                let help = format!("\"{}\" for the network, \"{host}\" for this host alone", network.trunc());
                self.say(&key("networks"), message, help);
            }
            if let Some(what) = special(&network).filter(|_| !self.is_recorded) {
                let message = format!("{network} is {what}, which no site has");
                self.say(&key("networks"), message, "what is behind the other site");
            }
            Some(network.trunc())
        });
        let networks = networks.collect();
        let via = match &table.via {
            None => None,
            Some(via) => {
                let found = names.iter().position(|one| one == via);
                if found.is_none() {
                    self.say(&key("via"), format!("there is no site `{via}`"), suggest::help(via, names));
                }
                if via == name {
                    self.say(&key("via"), "a site is not its own relay", "");
                }
                found.map(|number| number as u32)
            }
        };
        let rate = table.rate.rates();
        let mut control = match &table.control {
            Control::None(_) => None,
            Control::Edge(edge) => Some(edge.clone()),
        };
        // Whoever is reached by way of others is held there.
        if via.is_some() {
            if table.control != Control::default() {
                self.say(
                    &key("control"),
                    "what goes by way of another site is held on the way to that",
                    "say it there",
                );
            }
            control = None;
        }
        let shapes_flows = matches!(control, Some(EdgeConfig::Nbp(_)));
        if let Some(shaper) = control.as_mut().and_then(EdgeConfig::shaper_mut) {
            shaper.queue = table.queue.clone().unwrap_or_else(|| default_queue(has_classes, shapes_flows));
        }
        if let Some(EdgeConfig::Nbp(nbp)) = &control
            && nbp.round_trip == RoundTrip::Data
        {
            let help = "leave it out: packets here have no room for the time stamps that it needs";
            self.say(&["sites", name, "control", "round_trip"], "is not to be had in a gateway", help);
        }
        if let Some(EdgeConfig::Path(path)) = &mut control
            && path.initial_rate.is_none()
        {
            path.initial_rate = Some(rate.fallback);
        }
        let config = SiteConfig {
            name: name.to_owned(),
            id: public.as_ref().map_or(0, site_id),
            endpoint: None,
            networks,
            control,
            rate,
            via,
        };
        let peer = PeerPlan {
            public: public?,
            shared_file: table.preshared_key_file.clone(),
            keepalive: table.keepalive,
            endpoint: table.endpoint.clone(),
        };
        Some((config, peer))
    }

    /// What sites say together.
    fn compare(&mut self, file: &File, names: &[&str]) {
        let mut keys: HashMap<&str, &str> = HashMap::new();
        let mut networks: HashMap<IpNet, &str> = HashMap::new();
        let around: Vec<IpNet> =
            file.gateway.address.iter().filter_map(|text| text.parse::<IpNet>().ok()).collect();
        let own: Vec<IpAddr> = around.iter().map(IpNet::addr).collect();
        for &name in names {
            let table = &file.sites[name];
            // Blanks around it make no other key.
            if let Some(other) = keys.insert(table.public_key.trim(), name) {
                self.say(
                    &["sites", name, "public_key"],
                    format!("is that of site `{other}` too"),
                    "each site has its own key",
                );
            }
            // The kernel makes a route to the network of each address, which goes first.
            let end = table.endpoint.as_ref().and_then(|text| text.parse::<SocketAddr>().ok());
            if let Some((end, network)) = end.and_then(|end| {
                Some((end.ip(), around.iter().find(|network| network.contains(&end.ip()))?.trunc()))
            }) {
                self.say(
                    &["sites", name, "endpoint"],
                    format!("{end} is in {network} of `gateway.address`, which goes through the tunnel, and so would its datagrams"),
                    "its address outside; or another network inside",
                );
            }
            for network in table.networks.iter().filter_map(|text| text.parse::<IpNet>().ok()) {
                if network.prefix_len() == network.max_prefix_len() && own.contains(&network.addr()) {
                    let message = format!("{network} is an address of this gateway itself");
                    self.say(&["sites", name, "networks"], message, "what is behind the other site");
                }
                match networks.insert(network.trunc(), name) {
                    Some(other) if other == name => {
                        let message = format!("{network} is there twice");
                        self.say(&["sites", name, "networks"], message, "once");
                    }
                    Some(other) => {
                        let message = format!("{network} is behind site `{other}` too");
                        self.say(&["sites", name, "networks"], message, "each network is behind one site");
                    }
                    None => {}
                }
            }
            let relay = table.via.as_ref().and_then(|via| file.sites.get(via));
            if relay.is_some_and(|relay| relay.via.is_some()) {
                self.say(
                    &["sites", name, "via"],
                    "is itself reached by way of another site",
                    "a site with an endpoint",
                );
            }
        }
    }
}

/// What `network` is where no machine behind another site may have it: all of it is something else.
fn special(network: &IpNet) -> Option<&'static str> {
    const SPECIAL: [(&str, &str); 7] = [
        ("0.0.0.0/32", "no address"),
        ("127.0.0.0/8", "this machine itself"),
        ("224.0.0.0/4", "of groups"),
        ("255.255.255.255/32", "of all machines of a network"),
        // `::`, `::1`, and addresses of IPv4 that are written as ones of IPv6.
        ("::/64", "of this machine alone, or addresses of IPv4"),
        ("fe80::/10", "of one link"),
        ("ff00::/8", "of groups"),
    ];
    let within = |text: &str| text.parse::<IpNet>().is_ok_and(|whole| whole.contains(network));
    SPECIAL.into_iter().find_map(|(whole, what)| within(whole).then_some(what))
}

/// What is due before the next round of work goes with this one, unless the file says how much may: it would go with the next one
/// otherwise, as much at once, and later.
fn fill_rounds(site: &mut SiteConfig, together: Span) {
    let control =
        site.control.as_mut().filter(|one| matches!(one, EdgeConfig::Path(_) | EdgeConfig::Fixed(_)));
    if let Some(shaper) = control.and_then(EdgeConfig::shaper_mut)
        && together > Span::ZERO
    {
        shaper.bucket = shaper.bucket.or(Some(Limit::Time(together)));
    }
}

/// What waits at a shaper if the file does not say. Where each flow has a shaper no queue has tables: flows are as many as hosts open.
fn default_queue(has_classes: bool, shapes_flows: bool) -> DisciplineConfig {
    let codel = ManagerConfig::Codel(CodelConfig::default());
    if has_classes {
        DisciplineConfig::Priority(PriorityConfig { queue: Some(codel), ..PriorityConfig::default() })
    } else if shapes_flows {
        DisciplineConfig::Fifo(codel)
    } else {
        // Few flows are the rule here, and each is somebody's: chance puts none of them into the queue of another.
        let flows = FlowQueueingConfig { ways: 8, ..FlowQueueingConfig::default() };
        DisciplineConfig::FqCodel(FqCodelConfig { flows, ..FqCodelConfig::default() })
    }
}
