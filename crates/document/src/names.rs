//! Names in lists.

use std::collections::HashSet;

/// The first name that appears in a list a second time, with that second position.
pub fn first_duplicate<'a>(names: impl IntoIterator<Item = &'a str>) -> Option<(usize, &'a str)> {
    let mut seen = HashSet::new();
    names.into_iter().enumerate().find(|(_, name)| !seen.insert(*name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duplicate_is_found_at_its_second_position() {
        assert_eq!(first_duplicate(["a", "b", "a", "b"]), Some((2, "a")));
        assert_eq!(first_duplicate(["a", "b"]), None);
    }
}
