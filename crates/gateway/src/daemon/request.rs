//! What clients may ask, as bytes become a question. Decoding is total: any bytes are a question or none, in bounded memory and time.

use std::io::{self, Read, Write};

use tidegate_units::Span;

use super::io::clock;

/// The head of a request is no longer.
pub const REQUEST_BYTES_MAX: usize = 8192;
/// So many times a client may say a part of it.
const READS_MAX: usize = 16;

/// What `tidegatectl` asks for, in a line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// A look.
    Status,
    /// Read the file again.
    Reload,
    /// Say goodbye.
    Drain,
    /// Record the thread of a site, or the only one, and send it here.
    Record {
        /// The site.
        site: Option<String>,
    },
    /// There is no such command.
    Unknown(String),
}

impl Command {
    /// The command in `head`.
    pub fn decode(head: &[u8]) -> Self {
        match String::from_utf8_lossy(head).trim() {
            "status" => Self::Status,
            "reload" => Self::Reload,
            "drain" => Self::Drain,
            "record" => Self::Record { site: None },
            other => match other.strip_prefix("record ").map(serde_json::from_str) {
                // A name may have any letters.
                Some(Ok(site)) => Self::Record { site: Some(site) },
                _ => Self::Unknown(other.to_owned()),
            },
        }
    }

    /// The line that asks to record the thread of `site`, or the only one.
    pub fn record_line(site: Option<&str>) -> String {
        site.map_or_else(|| "record".to_owned(), |site| format!("record {}", serde_json::Value::from(site)))
    }
}

/// What a browser, or Prometheus, asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Page {
    /// For people.
    Status,
    /// For Prometheus.
    Metrics,
    /// For programs.
    Json,
    /// Nothing that there is.
    Unknown,
    /// It was asked under a name that is not this machine's. Pages of strangers may send a browser here under a name of theirs;
    /// what they would read is refused.
    Foreign,
}

impl Page {
    /// What the request in `head` asks for (RFC 9112, section 3).
    pub fn decode(head: &[u8]) -> Self {
        let text = String::from_utf8_lossy(head);
        let mut words = text.lines().next().unwrap_or_default().split(' ');
        let (method, path) = (words.next(), words.next().unwrap_or_default());
        let host = text.lines().find_map(|line| {
            line.to_ascii_lowercase().strip_prefix("host:").map(|host| host.trim().to_owned())
        });
        // Only those before HTTP/1.1 may leave it out.
        let may_lack = text.lines().next().is_some_and(|line| line.ends_with("HTTP/1.0"));
        match (method, path) {
            _ if !host.map_or(may_lack, |host| is_loopback(&host)) => Self::Foreign,
            (Some("GET"), "/") => Self::Status,
            (Some("GET"), "/metrics") => Self::Metrics,
            (Some("GET"), "/status.json") => Self::Json,
            _ => Self::Unknown,
        }
    }
}

/// Whether `host`, perhaps with a port, is this machine by its own name.
fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name == "localhost" || name.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
}

/// Reads up to `end`, or what there is. A client may take `patience` for all of it, as far as reading returns meanwhile.
///
/// # Errors
/// When the client has gone away, or takes too long.
pub fn read_head(stream: &mut impl Read, end: &[u8], patience: Span) -> io::Result<Vec<u8>> {
    let until = clock::now() + patience;
    let mut head = Vec::new();
    let mut part = [0; 1024];
    for _ in 0..READS_MAX {
        let bytes = stream.read(&mut part)?;
        head.extend_from_slice(&part[..bytes]);
        if bytes == 0 || head.windows(end.len()).any(|window| window == end) || head.len() > REQUEST_BYTES_MAX
        {
            break;
        }
        if clock::now() >= until {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
    Ok(head)
}

/// Writes `answer`. A client may take `patience` for all of it, as far as writing returns meanwhile.
///
/// # Errors
/// When the client has gone away, or takes too long.
pub fn write_answer(stream: &mut impl Write, answer: &[u8], patience: Span) -> io::Result<()> {
    let until = clock::now() + patience;
    let mut rest = answer;
    while !rest.is_empty() {
        let taken = stream.write(rest)?;
        rest = &rest[taken..];
        if taken == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        if !rest.is_empty() && clock::now() >= until {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
    stream.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_the_machine_itself_are_answered() {
        for good in ["127.0.0.1:9586", "localhost", "localhost:1", "[::1]:9586", "127.1.2.3"] {
            assert!(is_loopback(good), "{good}");
        }
        for bad in ["evil.example", "192.0.2.1:80", "[2001:db8::1]:1", "", "localhost.evil.example"] {
            assert!(!is_loopback(bad), "{bad}");
        }
        let foreign = b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n";
        assert_eq!(Page::decode(foreign), Page::Foreign);
        assert_eq!(Page::decode(b"GET /metrics HTTP/1.1\r\nhost: [::1]:9586\r\n\r\n"), Page::Metrics);
        assert_eq!(Page::decode(b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\n"), Page::Unknown);
        assert_eq!(Page::decode(b"GET / HTTP/1.1\r\n\r\n"), Page::Foreign);
        assert_eq!(Page::decode(b"GET / HTTP/1.0\r\n\r\n"), Page::Status);
    }

    #[test]
    fn a_site_may_have_any_name_and_what_is_no_name_is_no_command() {
        for site in [None, Some("b"), Some("two words"), Some("a \"quoted\"\nline \u{e4}"), Some("")] {
            let line = Command::record_line(site);
            assert!(!line.contains('\n'), "it is one line");
            let command = Command::decode(format!("{line}\n").as_bytes());
            assert_eq!(command, Command::Record { site: site.map(str::to_owned) });
        }
        for wrong in ["record b", "record 7", "record \"b\" c", "recording"] {
            assert_eq!(Command::decode(wrong.as_bytes()), Command::Unknown(wrong.to_owned()));
        }
    }

    #[test]
    fn a_client_that_never_ends_its_request_is_left() {
        let hour = Span::from_secs(3600);
        let head = read_head(&mut io::repeat(b'a'), b"\r\n\r\n", hour).expect("it says something");
        assert!(head.len() <= REQUEST_BYTES_MAX + 1024, "{}", head.len());
        // A byte at a time, each in time.
        let late =
            read_head(&mut io::repeat(b'a').take(9), b"\r\n\r\n", Span::ZERO).expect_err("it takes too long");
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
    }

    /// Takes one byte at a time.
    struct Slow(Vec<u8>);

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.extend(bytes.first());
            Ok(bytes.len().min(1))
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_client_that_hardly_listens_is_left() {
        let mut slow = Slow(Vec::new());
        write_answer(&mut slow, b"an answer", Span::from_secs(3600)).expect("there is time");
        assert_eq!(slow.0, b"an answer");
        let late = write_answer(&mut slow, b"another", Span::ZERO).expect_err("it takes too long");
        assert_eq!((late.kind(), slow.0.len()), (io::ErrorKind::TimedOut, 10));
        write_answer(&mut slow, b"1", Span::ZERO).expect("the last byte is in time whenever it went");
    }
}
