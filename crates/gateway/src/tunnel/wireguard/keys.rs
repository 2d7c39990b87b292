//! Keys of this end and of others, and the number by which gateways call a site.

use std::fmt;
use std::hash::Hasher as _;

use boringtun::x25519::{PublicKey, StaticSecret};
use siphasher::sip::SipHasher24;
use tidegate_units::Span;

/// A key of 32 bytes that stays here. Its text is never shown.
#[derive(Clone)]
pub struct PrivateKey(pub(super) StaticSecret);

impl PrivateKey {
    /// A new one, from the system's randomness.
    ///
    /// # Errors
    /// When the system has none.
    pub fn generate() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; 32];
        getrandom::getrandom(&mut bytes)?;
        Ok(Self::from(bytes))
    }

    /// What others are told.
    pub fn public(&self) -> [u8; 32] {
        PublicKey::from(&self.0).to_bytes()
    }

    /// For the file that keeps it.
    pub fn to_bytes(&self) -> [u8; 32] {
        self.0.to_bytes()
    }
}

impl From<[u8; 32]> for PrivateKey {
    fn from(bytes: [u8; 32]) -> Self {
        Self(StaticSecret::from(bytes))
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey")
    }
}

/// What gateways call the site with `public_key`.
pub fn site_id(public_key: &[u8; 32]) -> u64 {
    let mut hasher = SipHasher24::new();
    hasher.write(public_key);
    hasher.finish()
}

/// Another end.
#[derive(Clone)]
pub struct PeerKeys {
    /// Its key.
    pub public: [u8; 32],
    /// A secret that both have besides.
    pub shared: Option<[u8; 32]>,
    /// It hears from us so often, for those in between that forget.
    pub keepalive: Option<Span>,
}

impl fmt::Debug for PeerKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerKeys").field("public", &self.public).finish_non_exhaustive()
    }
}
