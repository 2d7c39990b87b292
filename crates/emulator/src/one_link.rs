//! The scenario that needs no file: two real hosts and the link between them.

/// How fast the link is.
#[derive(Clone, Copy, Debug)]
pub enum Rate<'a> {
    /// Always the same.
    Constant(&'a str),
    /// As the trace in this file says.
    Trace(&'a str),
}

/// The hosts A and B on one link, as TOML. `queue` is the name of a kind, or a table in braces.
pub fn toml(rate: Rate<'_>, delay: &str, queue: &str) -> String {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let rate = match rate {
        Rate::Constant(rate) => quoted(rate),
        Rate::Trace(file) => format!("{{ trace = {} }}", quoted(file)),
    };
    let queue = if queue.trim_start().starts_with('{') { queue.to_owned() } else { quoted(queue) };
    format!(
        "title = \"One link\"\n\
         # Until the command ends, or the user ends it.\n\
         duration = \"1000000s\"\n\
         nodes = {{ hosts = [\"A\", \"B\"], real = [\"A\", \"B\"] }}\n\
         [links.link]\n\
         between = [\"A\", \"B\"]\n\
         rate = {rate}\n\
         delay = {}\n\
         queue = {queue}\n",
        quoted(delay),
    )
}
