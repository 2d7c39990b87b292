//! Answers that were given last: packets come in trains, and each of a train asks the same.

/// How many are remembered.
const SLOTS: usize = 64;

/// What was last asked at each of a few places, and the answer. It is a function of the questions, so that who fills it with others
/// gains nothing but that the next one is answered as the first.
#[derive(Debug)]
pub struct Remembered<K, V>(Box<[Option<(K, V)>; SLOTS]>);

impl<K: Copy, V: Copy> Default for Remembered<K, V> {
    fn default() -> Self {
        Self(Box::new([None; SLOTS]))
    }
}

impl<K: Copy + PartialEq, V: Copy> Remembered<K, V> {
    /// The answer to `key`, whose place is `at` with as many bits as there are places; `find` has it where it is not remembered.
    pub fn get(&mut self, key: K, at: u8, find: impl FnOnce() -> V) -> V {
        let slot = &mut self.0[usize::from(at) % SLOTS];
        match slot {
            Some((last, answer)) if *last == key => *answer,
            _ => slot.insert((key, find())).1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// However questions follow each other, and though many share a place.
        #[test]
        fn answers_are_those_to_the_questions(keys in prop::collection::vec((0u16..200, any::<u8>()), 0..400)) {
            let mut remembered = Remembered::default();
            for (key, at) in keys {
                prop_assert_eq!(remembered.get(key, at, || key * 3), key * 3);
            }
        }
    }

    #[test]
    fn who_asks_the_same_again_is_answered_from_memory() {
        let mut remembered = Remembered::default();
        let mut asked = 0;
        for key in [1, 1, 1, 2, 2, 1] {
            remembered.get(key, 5, || asked += 1);
        }
        assert_eq!(asked, 3);
    }
}
