//! Clients that ask: pages of the web, and films.

use tidegate_parameters::bound::{Each, INSIDE};
use tidegate_parameters::{Bound, bound, parameters, words};
use tidegate_units::{BitRate, Bytes, Span};

use super::transfers::Sizes;

/// Objects of a page in all.
const OBJECTS_MAX: u64 = 10_000;
/// Connections of one client.
const CONNECTIONS: Bound<u32> = Bound::between(1, 256).saying("", " connections of one client");

parameters! {
    /// # Objects of a page
    ///
    /// Some that are asked for together.
    ///
    /// Source: none.
    pub struct PageObjects {
        /// How large each is. One of `size` and `sizes`.
        size: Option<Bytes> = None => Bound::between(Bytes::new(1), Bytes::new(1_000_000_000_000)).saying("no object has ", "");
        /// How large they are, where they differ.
        sizes: Option<Sizes> = None => INSIDE;
        /// How many. Source: none.
        count: u32 = 1 => Bound::between(1, 10_000).saying("", " objects");
        /// Which of the groups before, counted from 1, must be there whole before these are asked for; 0: they are asked for at once.
        /// Default: the group before.
        after: Option<u32> = None;
        /// How long after that they are asked for: what the client needs to find out. Source: none.
        delay: Span = Span::ZERO => bound::DELAY;
    }
    check |config, report| {
        if config.size.is_some() == config.sizes.is_some() {
            report.at(&[], "objects have `size` or `sizes`, one of them", "size = \"30kB\", or sizes = { kind = \"exponential\", mean = \"30kB\" }");
        }
    };
}

parameters! {
    /// # Pages of the web
    ///
    /// A client at `to` loads a page from `from`, thinks, and loads the next: objects that depend on each other, over several
    /// connections, each request over the network. A page of one object is a request and its answer. For TCP.
    ///
    /// Source: RFC 7928, section 3.2.4 (web traffic); RFC 9112, section 9.4 and RFC 9113 for what goes over a connection.
    pub struct Pages {
        /// What a page is made of, in groups: what is asked for together.
        objects: Vec<PageObjects> => Each(INSIDE);
        /// Connections at once. Source: browsers with HTTP/1.1.
        connections: u32 = 6 => CONNECTIONS;
        /// Connections that open with a page, also those for which there is no request yet. Chromium opens two. Source: none.
        early: u32 = 1 => CONNECTIONS;
        /// Requests without an answer over one connection. Source: HTTP/1.1 without pipelining; 100 is HTTP/2.
        streams: u32 = 1 => Bound::between(1, 1_000).saying("", " requests over one connection");
        /// Exchanges over a new connection before the first request, after the handshake: 1 is TLS 1.3. Each has 400 bytes to the server
        /// and 3000 to the client. Source: RFC 8446, section 2; sizes assumed.
        setup: u32 = 0 => Bound::at_most(10).saying("", " exchanges before a request");
        /// Bytes of a request. Source: assumed.
        request: Bytes = Bytes::new(400) => Bound::between(Bytes::new(1), Bytes::new(1_000_000)).saying("no request has ", "");
        /// How long the server needs before each answer, on average; exponentially distributed. Meanwhile its host answers other
        /// connections: what opens beside a request need not wait behind its answer. Source: none.
        work: Span = Span::ZERO => bound::DELAY;
        /// How long the client needs before each request, on average, from when its connection is there; exponentially distributed.
        /// Source: none.
        react: Span = Span::ZERO => bound::DELAY;
        /// From one page until the next, on average. Source: assumed.
        think: Span = Span::from_secs(5) => bound::DELAY;
        /// How long thinking lasts: exponentially distributed, or always the mean. Source: none.
        thinking: Thinking = Thinking::Exponential;
        /// Whether connections stay open while the client thinks. Source: none.
        keep: bool = false;
    }
    check |config, report| {
        if config.objects.is_empty() {
            report.say("objects", "a page without objects", "[{ size = \"30kB\" }, { size = \"20kB\", count = 12 }]");
        }
        if config.objects.iter().map(|group| u64::from(group.count)).sum::<u64>() > OBJECTS_MAX {
            report.say("objects", format!("more than {OBJECTS_MAX} objects"), "");
        }
        for (position, group) in config.objects.iter().enumerate() {
            if group.after.is_some_and(|after| after as usize > position) {
                let message = format!("group {} waits for one that does not come before it", position + 1);
                report.at(&["objects", &position.to_string(), "after"], message, "groups count from 1; 0 is for none");
            }
        }
    };
}

words! {
    /// How long a client thinks.
    pub enum Thinking {
        /// Exponentially distributed.
        Exponential = "exponential",
        /// Always the mean.
        Constant = "constant",
    }
}

words! {
    /// How the rate of the next segment of a film is chosen.
    pub enum VideoRule {
        /// By what is in the buffer (BOLA).
        Bola = "bola",
        /// By the throughput of the last five segments: 0.85 of their harmonic mean.
        Rate = "rate",
    }
}

parameters! {
    /// # A film that adapts
    ///
    /// A client at `to` plays a film from `from`: it asks for one segment after another at one of several rates, into a buffer. Where the
    /// buffer runs empty, the film stands still. For TCP.
    ///
    /// Source: Spiteri, Urgaonkar and Sitaraman, "BOLA", INFOCOM 2016; the rates are those of its table I.
    pub struct Video {
        /// The rates that there are, ascending. Source: BOLA, table I, every other one.
        rates: Vec<BitRate> = [230, 477, 991, 2_056, 3_536, 6_000].map(|kbps| BitRate::from_bps(kbps * 1_000)).to_vec() => Each(bound::RATE);
        /// How long a segment plays. Source: BOLA, section V (3 s).
        segment: Span = Span::from_secs(3) => bound::DURATION;
        /// The buffer holds no more. Source: BOLA, section V (25 s).
        buffer: Span = Span::from_secs(25) => bound::DURATION;
        /// It plays when the buffer holds so much, at first and after it ran empty. Default: one segment.
        start: Option<Span> = None => bound::DURATION;
        /// How rates are chosen. Source: BOLA.
        rule: VideoRule = VideoRule::Bola;
        /// Bytes of a request. Source: assumed.
        request: Bytes = Bytes::new(400) => Bound::between(Bytes::new(1), Bytes::new(1_000_000)).saying("no request has ", "");
        /// How long the film is. Default: as long as the flow.
        length: Option<Span> = None => bound::DURATION;
    }
    check |config, report| {
        if config.rates.is_empty() || config.rates.len() > 100 {
            report.say("rates", format!("{} rates", config.rates.len()), "1 to 100");
        }
        if !config.rates.is_sorted_by(|a, b| a < b) {
            report.say("rates", "the rates do not ascend", "the lowest first");
        }
        if config.buffer < config.segment {
            report.say("buffer", format!("{} has no room for a segment of {}", config.buffer, config.segment), "at least `segment`");
        }
        if config.start.is_some_and(|start| start > config.buffer) {
            report.say("start", "it would wait for more than the buffer holds", "at most `buffer`");
        }
    };
}

/// What can be recorded of pages over time.
pub(crate) const PAGE_VARIABLES: [&str; 2] = ["loaded_pages", "open_connections"];
/// What can be recorded of a film over time.
pub(crate) const VIDEO_VARIABLES: [&str; 3] = ["buffer_s", "bitrate_bps", "stalled_s"];

impl Pages {
    /// The groups that each group waits for, by their positions.
    pub fn after(&self) -> impl Iterator<Item = Option<usize>> {
        self.objects.iter().enumerate().map(|(position, group)| match group.after {
            None => position.checked_sub(1),
            Some(after) => (after as usize).checked_sub(1),
        })
    }
}
