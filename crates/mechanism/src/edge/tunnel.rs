//! What becomes of the ECN field where a tunnel ends, so that what the network marked on the outer header reaches the hosts.
//!
//! Source: RFC 6040, section 4.2 (figure 4).
//! Deviations: an outer mark over an inner field that knows no marks is no reason to drop, as it is there: an ingress in the
//! normal mode writes outer fields that can be marked only over inner ones that can, so that what breaks this is not the packet.

use tidegate_packet::{Ecn, Packet};

/// A tunnel at `level` begins around `packet`, in the normal mode (RFC 6040, section 4.1): the outer field can be marked if the inner
/// one can. What happened before the tunnel is inside.
pub fn enter(packet: &mut Packet, level: u8) {
    packet.inner_ecn.put(level, packet.ecn);
    if packet.ecn == Ecn::Ce {
        packet.ecn = Ecn::Ect0;
    }
}

/// The tunnel at `level` ends around `packet`; whether there was one.
pub fn leave(packet: &mut Packet, level: u8) -> bool {
    let Some(inner) = packet.inner_ecn.take(level) else { return false };
    packet.ecn = decapsulated(inner, packet.ecn);
    true
}

/// The inner field when the outer one is taken away.
pub const fn decapsulated(inner: Ecn, outer: Ecn) -> Ecn {
    match (inner, outer) {
        (Ecn::NotEct, _) | (_, Ecn::NotEct | Ecn::Ect0) => inner,
        (_, Ecn::Ce) => Ecn::Ce,
        (Ecn::Ect0, Ecn::Ect1) => Ecn::Ect1,
        (_, Ecn::Ect1) => inner,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tunnel_ends_as_figure_4_of_rfc_6040_has_it() {
        use Ecn::{Ce, Ect0, Ect1, NotEct};
        // Rows: the inner field; columns: the outer one, in the order of the figure. Its first row ends with a drop: see the module.
        let table = [
            (NotEct, [NotEct, NotEct, NotEct, NotEct]),
            (Ect0, [Ect0, Ect0, Ect1, Ce]),
            (Ect1, [Ect1, Ect1, Ect1, Ce]),
            (Ce, [Ce, Ce, Ce, Ce]),
        ];
        for (inner, row) in table {
            for (outer, expected) in [NotEct, Ect0, Ect1, Ce].into_iter().zip(row) {
                assert_eq!(decapsulated(inner, outer), expected, "{inner:?} in {outer:?}");
            }
        }
    }
}
