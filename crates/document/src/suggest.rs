//! "Did you mean": the nearest of the allowed names.

/// Names longer than this are not compared.
const NAME_BYTES_MAX: usize = 64;
/// Names that are compared at most.
const NAMES_MAX: usize = 20_000;
/// Allowed names that are listed at most.
const LISTED_MAX: usize = 40;

/// The name of `allowed` that differs from `given` by the fewest edits, if these are few.
pub fn nearest<'a>(given: &str, allowed: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if given.is_empty() || given.len() > NAME_BYTES_MAX {
        return None;
    }
    let wanted = given.to_lowercase();
    // One slip in three letters; a single letter resembles everything.
    let limit = (given.chars().count() + 1) / 3;
    let mut best: Option<(usize, &str)> = None;
    for name in allowed.into_iter().take(NAMES_MAX) {
        if name.len() > NAME_BYTES_MAX || name.len().abs_diff(wanted.len()) > limit + 3 {
            continue;
        }
        let lower = name.to_lowercase().replace('-', "_");
        let distance = if lower == wanted.replace('-', "_") { 0 } else { distance(&wanted, &lower) };
        if distance <= limit && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, name));
        }
    }
    best.map(|(_, name)| name)
}

/// Help for an unknown name: the nearest one, or all if they are few.
pub fn help(given: &str, allowed: &[&str]) -> String {
    if let Some(name) = nearest(given, allowed.iter().copied()) {
        return format!("did you mean `{name}`?");
    }
    list("allowed", allowed)
}

/// `what: a, b, c`, cut where it would be long; empty for no names.
pub fn list(what: &str, names: &[&str]) -> String {
    if names.is_empty() {
        return String::new();
    }
    let shown = names[..names.len().min(LISTED_MAX)].join(", ");
    let more = if names.len() > LISTED_MAX { ", ..." } else { "" };
    format!("{what}: {shown}{more}")
}

/// Insertions, deletions, substitutions and swaps of neighbours between `a` and `b`.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before_last: Vec<usize> = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let substitute = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = substitute.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before_last[j - 2] + 1);
            }
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised_and_strangers_are_not() {
        let allowed = ["rate", "delay", "queue", "min_rto"];
        assert_eq!(nearest("rte", allowed), Some("rate"));
        assert_eq!(nearest("dealy", allowed), Some("delay"));
        assert_eq!(nearest("min-rto", allowed), Some("min_rto"));
        assert_eq!(nearest("Rate", allowed), Some("rate"));
        assert_eq!(nearest("bandwidth", allowed), None);
        assert_eq!(help("bandwidth", &allowed), "allowed: rate, delay, queue, min_rto");
    }
}
