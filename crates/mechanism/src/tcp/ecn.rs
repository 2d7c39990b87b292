//! What a sender does with the ECN field, as configurations write it: a word, or a switch for what there was before L4S.
//!
//! Source: RFC 3168, section 5 (ECT(0)); RFC 9331, section 4.1 (ECT(1) asks for L4S). Deviations: none.

use tidegate_packet::Ecn;

/// What its packets say about congestion marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum EcnUse {
    /// They understand none.
    #[default]
    None,
    /// They understand marks in place of drops: ECT(0).
    Classic,
    /// They take marks for what they are, often and early: ECT(1).
    L4s,
}

impl EcnUse {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::None, Self::Classic, Self::L4s];

    /// The word of it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Classic => "classic",
            Self::L4s => "l4s",
        }
    }

    /// Whether marks are understood.
    pub const fn is_on(self) -> bool {
        !matches!(self, Self::None)
    }

    /// The codepoint with which packets are sent.
    pub const fn codepoint(self) -> Ecn {
        match self {
            Self::None => Ecn::NotEct,
            Self::Classic => Ecn::Ect0,
            Self::L4s => Ecn::Ect1,
        }
    }
}

impl From<bool> for EcnUse {
    fn from(is_on: bool) -> Self {
        if is_on { Self::Classic } else { Self::None }
    }
}

/// Reading and writing: `true` and `false` are `classic` and `none`, and are what these two are written as.
#[cfg(feature = "text")]
mod text {
    use super::EcnUse;
    use core::fmt;
    use tidegate_parameters::text::serde::{Deserialize, Deserializer, Serialize, Serializer, de};
    use tidegate_parameters::text::switch_schema;

    impl Serialize for EcnUse {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            match self {
                Self::L4s => serializer.serialize_str(self.word()),
                Self::None | Self::Classic => serializer.serialize_bool(self.is_on()),
            }
        }
    }

    struct Reading;

    impl de::Visitor<'_> for Reading {
        type Value = EcnUse;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("true, false, or one of none, classic, l4s")
        }
        fn visit_bool<E: de::Error>(self, is_on: bool) -> Result<EcnUse, E> {
            Ok(EcnUse::from(is_on))
        }
        fn visit_str<E: de::Error>(self, word: &str) -> Result<EcnUse, E> {
            let known = EcnUse::ALL.into_iter().find(|known| known.word() == word);
            known.ok_or_else(|| E::unknown_variant(word, &["none", "classic", "l4s"]))
        }
    }

    impl<'de> Deserialize<'de> for EcnUse {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_any(Reading)
        }
    }

    tidegate_parameters::__json_schema!(EcnUse, |_| {
        switch_schema(
            "What packets say about congestion marks.",
            &[
                ("none", "No mark is understood, as with `false`."),
                ("classic", "A mark stands for a drop, as with `true`: ECT(0) (RFC 3168)."),
                ("l4s", "Marks are many and small: ECT(1) (RFC 9331)."),
            ],
        )
    });

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn switches_are_read_and_written_as_they_were_and_l4s_is_a_word() {
            let read = |text: &str| serde_json::from_str::<EcnUse>(text);
            for (text, used) in [
                ("false", EcnUse::None),
                ("\"none\"", EcnUse::None),
                ("true", EcnUse::Classic),
                ("\"classic\"", EcnUse::Classic),
                ("\"l4s\"", EcnUse::L4s),
            ] {
                assert_eq!(read(text).ok(), Some(used), "{text}");
            }
            assert!(read("\"ect1\"").is_err() && read("1").is_err());
            let written = EcnUse::ALL.map(|used| serde_json::to_string(&used).expect("a value"));
            assert_eq!(written, ["false", "true", "\"l4s\""]);
        }
    }
}
