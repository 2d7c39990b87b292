//! What clients say to the daemon: to its socket, and to its status page. Parts come as they like.
#![no_main]

use std::io::{self, Read};

use libfuzzer_sys::fuzz_target;
use tidegate_gateway::daemon::request::{Command, Page, REQUEST_BYTES_MAX, read_head};
use tidegate_units::Span;

/// Gives so many bytes at once, and at its end breaks or is empty.
struct Parts<'a>(&'a [u8], usize, bool);

impl Read for Parts<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        if self.0.is_empty() && self.2 {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let bytes = self.0.len().min(self.1).min(room.len());
        let (part, rest) = self.0.split_at(bytes);
        room[..bytes].copy_from_slice(part);
        self.0 = rest;
        Ok(bytes)
    }
}

fuzz_target!(|input: (u8, bool, &[u8])| {
    let (part, breaks, bytes) = input;
    for end in [&b"\n"[..], b"\r\n\r\n"] {
        let Ok(head) =
            read_head(&mut Parts(bytes, 1 + usize::from(part) * 8, breaks), end, Span::from_secs(9))
        else {
            continue;
        };
        assert!(head.len() <= REQUEST_BYTES_MAX + 1024);
        if let Command::Unknown(name) = Command::decode(&head) {
            assert!(!["status", "reload", "drain", "record"].contains(&name.as_str()));
        }
        let page = Page::decode(&head);
        assert!(head.starts_with(b"GET ") || matches!(page, Page::Unknown | Page::Foreign), "{page:?}");
    }
});
