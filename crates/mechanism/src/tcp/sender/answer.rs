//! What a handshake tells of the path: a round trip, also to the half that answers, from its answer to the SYN until the next segment.
//!
//! Source: RFC 6298, sections 2.1 and 3 (an answer that was sent twice gives no sample). Deviations: none.

use tidegate_units::Time;

use super::TcpSender;

/// How far the answer has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Answer {
    /// There was no SYN.
    #[default]
    None,
    /// It was sent then, once.
    Sent(Time),
    /// It was sent twice, or what came after it was heard.
    Over,
}

impl TcpSender {
    /// This host answered the SYN of the other one.
    pub fn on_syn_answered(&mut self, now: Time) {
        self.answer = match self.answer {
            Answer::None => Answer::Sent(now),
            Answer::Sent(_) | Answer::Over => Answer::Over,
        };
    }

    /// A segment that is no SYN came: if it is the first after the answer, that took a round trip.
    pub fn on_answer_heard(&mut self, now: Time) {
        if let Answer::Sent(at) = self.answer {
            self.answer = Answer::Over;
            // What was sent before the handshake was over may have been measured.
            if self.srtt().is_none() {
                self.measure_handshake(at, now);
            }
        }
    }

    /// A segment of the handshake was sent then, once, and has been answered.
    pub(super) fn measure_handshake(&mut self, sent: Time, now: Time) {
        self.c.rto.on_sample(sent, now);
        self.recovery.on_handshake(&self.c, now.since(sent), now);
    }
}
