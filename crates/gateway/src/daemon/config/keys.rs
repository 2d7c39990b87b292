//! The files with secrets that a configuration names, and keys as text.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tidegate_document::{ConfigError, ConfigErrors};

use super::{PeerPlan, Plan};
use crate::tunnel::wireguard::{PeerKeys, PrivateKey};

/// The 32 bytes that `text` writes.
pub fn decode_key(text: &str) -> Option<[u8; 32]> {
    STANDARD.decode(text.trim()).ok()?.try_into().ok()
}

/// A key as text.
pub fn encode_key(bytes: &[u8; 32]) -> String {
    STANDARD.encode(bytes)
}

/// Secrets, by the file in which they stand.
#[derive(Default)]
pub struct Keys(HashMap<String, [u8; 32]>);

impl Keys {
    /// Reads what `plan` names and was not read yet.
    ///
    /// # Errors
    /// When a file cannot be read, is no key, or others may read it; when a site has the own key.
    pub fn load(&mut self, plan: &Plan) -> Result<(), ConfigErrors> {
        let shared = plan.peers.iter().filter_map(|peer| peer.shared_file.as_ref());
        for file in std::iter::once(&plan.private_key_file).chain(shared) {
            if !self.0.contains_key(file) {
                let key = read_secret(Path::new(file))
                    .map_err(|(why, help)| ConfigError::without_place(file.clone(), why, help))?;
                self.0.insert(file.clone(), key);
            }
        }
        // As it is where the keys of a pair were written the wrong way round.
        let own = self.private(plan).public();
        if let Some(at) = plan.peers.iter().position(|peer| peer.public == own) {
            return Err(ConfigErrors::from(ConfigError::without_place(
                format!("sites.{}.public_key", plan.names()[at]),
                "is the key of this gateway itself".to_owned(),
                "the one that `tidegatectl keygen` showed at the other site".to_owned(),
            )));
        }
        Ok(())
    }

    /// The own key of `plan`, which was loaded.
    pub fn private(&self, plan: &Plan) -> PrivateKey {
        PrivateKey::from(self.0[&plan.private_key_file])
    }

    /// The peers of `plan`, which was loaded.
    pub fn peers(&self, plan: &Plan) -> Vec<PeerKeys> {
        let peer = |peer: &PeerPlan| PeerKeys {
            public: peer.public,
            shared: peer.shared_file.as_ref().map(|file| self.0[file]),
            keepalive: peer.keepalive,
        };
        plan.peers.iter().map(peer).collect()
    }
}

fn read_secret(path: &Path) -> Result<[u8; 32], (String, String)> {
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
    let text = fs::read_to_string(path).map_err(cannot)?;
    decode_key(&text).ok_or_else(|| {
        ("is no key".to_owned(), "44 characters, as `tidegatectl keygen` writes them".to_owned())
    })
}
