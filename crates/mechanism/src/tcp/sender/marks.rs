//! What a segment says of ECN: whether it can be marked, and that the window was reduced.
//!
//! Source: RFC 3168, section 6.1; RFC 9331, section 4.1; RFC 9768, section 3.2. Deviations: none.

use tidegate_packet::{Ecn, TcpFlags};

use super::TcpSender;
use crate::tcp::config::{EcnFeedback, Rules};

impl TcpSender {
    /// Flags and codepoint of a data segment, where both ends speak ECN.
    #[inline]
    pub(super) fn marks(&mut self, retransmission: bool) -> (TcpFlags, Ecn) {
        // RFC 3168, section 6.1.5, and what is an exception: `ecn_retransmissions`.
        let ecn = match (retransmission && !self.ecn_retransmissions, self.l4s) {
            (true, _) => Ecn::NotEct,
            (false, true) => Ecn::Ect1,
            (false, false) => Ecn::Ect0,
        };
        // The first new data says that the window is reduced (RFC 3168, section 6.1.2); ns's first packet does.
        if retransmission && self.c.rules != Rules::Ns1999 {
            return (self.flags, ecn);
        }
        // The flag is a part of the counter of accurate feedback (RFC 9768, section 3.2).
        let says = self.c.cwr_due && self.feedback != EcnFeedback::Accurate;
        self.c.cwr_due = false;
        (self.flags.with_if(says, TcpFlags::CWR), ecn)
    }
}
