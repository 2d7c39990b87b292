//! The laws of the virtual source: who is constrained at an output, and how much of it each input may use.
//!
//! Source: Pazos and Gerla, section 4.2, steps 1(a) to 1(f); deviations in [`super`].

use super::Excess;

/// What is known of one input at an output, for a sampling period. All in bytes as the output's wire counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Offered {
    /// `Dt_i + Res_i`: what it offered.
    pub bytes: f64,
    /// Whether it is one of the N inputs that contribute.
    pub contributes: bool,
}

/// `FS`: an equal part of what is not reserved (step 1(a)); not below zero.
pub fn fair_share(tf: f64, reserved: f64, inputs: u32) -> f64 {
    (tf - reserved).max(0.0) / f64::from(inputs.max(1))
}

/// Whether an input is constrained by this output, and not somewhere else (step 1(b)).
pub fn is_constrained(offered: f64, fair_share: f64, reserved: f64, tolerance: f64) -> bool {
    offered >= (1.0 - tolerance) * (fair_share + reserved)
}

/// What is left for an input that offered more than it was `allowed` (step 1(d)): the share without twice the excess.
pub fn without_excess(share: f64, offered: f64, allowed: f64) -> f64 {
    (share - 2.0 * (offered - allowed).max(0.0)).max(0.0)
}

/// `AS`: the part of the output that each input may use (steps 1(a) to 1(e)). `tf` is what the output can send in a period,
/// `resv` the part of it that is reserved for each contributing input; `shares` are those of the period before. Inputs that do not
/// contribute get nothing. Whether there was anything to divide; if not, shares stay as they are.
pub fn actual_shares(
    tf: f64,
    resv: f64,
    tolerance: f64,
    excess: Excess,
    offered: &[Offered],
    shares: &mut [f64],
) -> bool {
    let inputs = offered.iter().filter(|input| input.contributes).count() as u32;
    if inputs == 0 || tf <= 0.0 {
        return false;
    }
    let fs = fair_share(tf, resv * f64::from(inputs), inputs);
    let constrained = |input: &Offered| is_constrained(input.bytes, fs, resv, tolerance);
    let (mut elsewhere, mut unconstrained) = (0.0, 0);
    for input in offered.iter().filter(|input| input.contributes && !constrained(input)) {
        elsewhere += input.bytes;
        unconstrained += 1;
    }
    // 1(c): what the others leave, divided among those that are constrained here.
    let n = f64::from(inputs - unconstrained);
    let left = ((tf - elsewhere - resv * n) / n).max(0.0) + resv;
    for (input, share) in offered.iter().zip(shares) {
        *share = match input {
            Offered { contributes: false, .. } => 0.0,
            input if constrained(input) => {
                let allowed = match excess {
                    Excess::OverNew => left,
                    Excess::OverTold => left.max(*share * tf),
                };
                without_excess(left, input.bytes, allowed) / tf
            }
            _ => (fs + resv) / tf, // 1(e)
        };
    }
    true
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;

    fn shares(tf: f64, resv: f64, offered: &[f64]) -> Vec<f64> {
        let offered: Vec<Offered> =
            offered.iter().map(|&bytes| Offered { bytes, contributes: bytes > 0.0 }).collect();
        let mut shares = vec![9.0; offered.len()];
        actual_shares(tf, resv, 0.05, Excess::OverNew, &offered, &mut shares);
        shares
    }

    #[test]
    fn an_excess_over_what_was_told_leaves_the_obedient_their_new_share() {
        let offered = [60.0, 50.0].map(|bytes| Offered { bytes, contributes: true });
        let mut shares = [0.6, 0.4];
        actual_shares(100.0, 0.0, 0.05, Excess::OverTold, &offered, &mut shares);
        // The first did as it was told; the second sent as much as it may from now on.
        near(&shares, &[0.5, 0.5]);
        shares = [0.55, 0.4];
        actual_shares(100.0, 0.0, 0.05, Excess::OverTold, &offered, &mut shares);
        near(&shares, &[0.4, 0.5]);
    }

    fn near(found: &[f64], wanted: &[f64]) {
        assert!(found.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-12), "{found:?} {wanted:?}");
    }

    #[test]
    fn backlogged_inputs_share_evenly() {
        near(&shares(100.0, 0.0, &[50.0, 50.0]), &[0.5, 0.5]);
        near(&shares(100.0, 10.0, &[50.0, 50.0]), &[0.5, 0.5]);
    }

    #[test]
    fn what_one_leaves_goes_to_the_other_and_the_first_keeps_its_claim() {
        near(&shares(100.0, 0.0, &[30.0, 70.0]), &[0.5, 0.7]);
    }

    #[test]
    fn what_was_too_much_is_taken_back_twice() {
        // 60 of 100 where 50 is the share: 10 too much, 30 for the next period.
        near(&shares(100.0, 0.0, &[60.0, 50.0]), &[0.3, 0.5]);
        near(&shares(100.0, 0.0, &[90.0, 60.0]), &[0.0, 0.3]);
    }

    #[test]
    fn who_sends_nothing_gets_nothing() {
        near(&shares(100.0, 0.0, &[100.0, 0.0]), &[1.0, 0.0]);
    }

    #[test]
    fn one_packet_less_than_the_share_is_still_constrained() {
        // Within the tolerance; else it would keep to its fair share and never learn that the other leaves some.
        near(&shares(100.0, 0.0, &[30.0, 48.0]), &[0.5, 0.7]);
        near(&shares(100.0, 0.0, &[30.0, 40.0]), &[0.5, 0.5]);
    }

    #[test]
    fn reservations_beyond_the_capacity_leave_no_negative_share() {
        let found = shares(10.0, 20.0, &[5.0, 5.0]);
        assert!(found.iter().all(|&share| share >= 0.0), "{found:?}");
    }
}
