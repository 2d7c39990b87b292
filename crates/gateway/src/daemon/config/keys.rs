//! The files with secrets that a configuration names, and keys as text.

use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tidegate_document::{ConfigError, ConfigErrors};

use super::{PeerPlan, Plan, text_of};
use crate::tunnel::wireguard::{PeerKeys, PrivateKey};

/// The 32 bytes that `text` writes.
pub fn decode_key(text: &str) -> Option<[u8; 32]> {
    STANDARD.decode(text.trim()).ok()?.try_into().ok()
}

/// A key as text.
pub fn encode_key(bytes: &[u8; 32]) -> String {
    STANDARD.encode(bytes)
}

/// A secret, and which writing of its file it was read from.
struct Secret {
    key: [u8; 32],
    written: Written,
}

/// What differs when a file is written again: which one it is, and when it was changed.
type Written = (u64, i64, i64);

fn written(about: &Metadata) -> Written {
    (about.ino(), about.mtime(), about.mtime_nsec())
}

/// Secrets, by the file in which they stand.
#[derive(Default)]
pub struct Keys(HashMap<String, Secret>);

impl Keys {
    /// Reads what `plan` names and was not read yet.
    ///
    /// # Errors
    /// When a file cannot be read, is no key, or others may read it; when a site has the own key.
    pub fn load(&mut self, plan: &Plan) -> Result<(), ConfigErrors> {
        let wrong = |at: &ConfigError, message: String, help: String| {
            Err(ConfigErrors::from(at.saying(message).helped(help)))
        };
        let gateway = std::iter::once((&plan.private_key_file, &plan.written.private_key_file));
        let shared = plan.peers.iter().zip(&plan.written.sites);
        let shared = shared.filter_map(|(peer, [_, at, _])| Some((peer.shared_file.as_ref()?, at)));
        for (file, at) in gateway.chain(shared) {
            if file.trim().is_empty() {
                // Recordings have none, so that files are not refused for it before it is to be read.
                let help = "like \"/etc/tidegate/key\", which `tidegatectl keygen` writes".to_owned();
                return wrong(at, "names no file".to_owned(), help);
            }
            if !self.0.contains_key(file) {
                match read_secret(Path::new(file)) {
                    Ok(secret) => self.0.insert(file.clone(), secret),
                    Err((why, help)) => return wrong(at, format!("{file} {why}"), help),
                };
            }
        }
        // As it is where the keys of a pair were written the wrong way round.
        let own = self.private(plan).public();
        if let Some(site) = plan.peers.iter().position(|peer| peer.public == own) {
            let help = "the one that `tidegatectl keygen` showed at the other site".to_owned();
            return wrong(&plan.written.sites[site][0], "is the key of this gateway itself".to_owned(), help);
        }
        Ok(())
    }

    /// The files that `plan` names and that hold, or may hold, another key than was loaded: the daemon may have no right to read them
    /// again.
    pub fn written_since<'a>(&self, plan: &'a Plan) -> Vec<&'a str> {
        let is_other = |file: &&String| {
            let (Some(secret), Ok(about)) = (self.0.get(*file), fs::metadata(file)) else { return false };
            written(&about) != secret.written
                && text_of(Path::new(file)).map_or(true, |text| decode_key(&text) != Some(secret.key))
        };
        files(plan).filter(is_other).map(String::as_str).collect()
    }

    /// The own key of `plan`, which was loaded.
    pub fn private(&self, plan: &Plan) -> PrivateKey {
        PrivateKey::from(self.0[&plan.private_key_file].key)
    }

    /// The peers of `plan`, which was loaded.
    pub fn peers(&self, plan: &Plan) -> Vec<PeerKeys> {
        let peer = |peer: &PeerPlan| PeerKeys {
            public: peer.public,
            shared: peer.shared_file.as_ref().map(|file| self.0[file].key),
            keepalive: peer.keepalive,
        };
        plan.peers.iter().map(peer).collect()
    }
}

/// The files with secrets that `plan` names.
fn files(plan: &Plan) -> impl Iterator<Item = &String> {
    let shared = plan.peers.iter().filter_map(|peer| peer.shared_file.as_ref());
    std::iter::once(&plan.private_key_file).chain(shared)
}

fn read_secret(path: &Path) -> Result<Secret, (String, String)> {
    let cannot = |why: io::Error| {
        let help = if why.kind() == io::ErrorKind::PermissionDenied {
            "ask as root (`sudo`), or as the user of the daemon"
        } else {
            "`tidegatectl keygen FILE` makes one"
        };
        (format!("cannot be read: {why}"), help.to_owned())
    };
    let about = fs::metadata(path).map_err(cannot)?;
    if about.mode() & 0o077 != 0 {
        return Err((
            format!("may be read by others (its mode is {:o})", about.mode() & 0o777),
            format!("chmod 600 {}", path.display()),
        ));
    }
    let text = text_of(path).map_err(cannot)?;
    let key = decode_key(&text).ok_or_else(|| {
        ("is no key".to_owned(), "44 characters, as `tidegatectl keygen` writes them".to_owned())
    })?;
    Ok(Secret { key, written: written(&about) })
}
