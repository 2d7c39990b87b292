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

/// Whether somebody may have the private part of `public_key`: of the few points of low order nobody has, and everybody knows what a
/// handshake with them agrees upon (RFC 7748, section 6.1).
pub fn is_somebodys(public_key: &[u8; 32]) -> bool {
    // Any scalar would do: all that are used are multiples of the orders in question.
    StaticSecret::from([1; 32]).diffie_hellman(&PublicKey::from(*public_key)).was_contributory()
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Of order 1, 2, 4 and 8, as 32 bytes from the lowest on; also with the bit that is not looked at, and not reduced.
    #[test]
    fn points_of_low_order_are_nobodys_keys() {
        let of = |text: &str| {
            let byte = |at: usize| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).expect("it is one");
            std::array::from_fn::<u8, 32, _>(byte)
        };
        let eighth = [
            of("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"),
            of("5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157"),
        ];
        // 2^255 - 19 and its neighbours.
        let mut around = [[0xff; 32]; 3];
        for (key, low) in around.iter_mut().zip([0xec, 0xed, 0xee]) {
            (key[0], key[31]) = (low, 0x7f);
        }
        let mut one = [0; 32];
        one[0] = 1;
        for mut key in [[0; 32], one].into_iter().chain(eighth).chain(around) {
            assert!(!is_somebodys(&key), "{key:?}");
            key[31] |= 0x80;
            assert!(!is_somebodys(&key), "{key:?}");
        }
        assert!(is_somebodys(&PrivateKey::from([7; 32]).public()));
        let mut nine = [0; 32];
        nine[0] = 9;
        assert!(is_somebodys(&nine), "the base point");
    }
}
