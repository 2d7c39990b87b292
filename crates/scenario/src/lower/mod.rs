//! From the configurations of a scenario to those of the mechanisms: the only place that names both.

mod edge;
mod hop;
mod queue;
mod tcp;

pub use edge::{edge, labeller};
pub use hop::hop;
pub use queue::{discipline, manager};
pub use tcp::tcp;

use tidegate_units::Bytes;

/// Sizes that were checked to fit.
pub(crate) fn bytes32(bytes: Bytes) -> u32 {
    u32::try_from(bytes.get()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use tidegate_mechanism::edge::EdgeConfig;
    use tidegate_mechanism::edge::nbp::NbpConfig;
    use tidegate_mechanism::hop::HopConfig;
    use tidegate_mechanism::hop::nbq::NbqConfig;
    use tidegate_mechanism::meter::CsfqLabellerConfig;
    use tidegate_mechanism::queue::{DropTailConfig, ManagerConfig, RedConfig};
    use tidegate_mechanism::schedule::{DisciplineConfig, WfqConfig};

    use super::*;
    use crate::model::{Labels, Mechanism, Queue};

    #[test]
    fn defaults_are_those_of_the_mechanisms() {
        let plain = |queue: Queue| discipline(&queue, &[]);
        assert_eq!(
            plain(Queue::Red(crate::model::Red::default())),
            DisciplineConfig::Fifo(ManagerConfig::Red(RedConfig::default()))
        );
        assert_eq!(
            plain(Queue::default()),
            DisciplineConfig::Fifo(ManagerConfig::DropTail(DropTailConfig::default()))
        );
        assert_eq!(
            plain(Queue::Wfq(crate::model::Wfq::default())),
            DisciplineConfig::Wfq(WfqConfig::default())
        );
        let nbp = Mechanism::Nbp(Box::default());
        assert_eq!(edge(&nbp), Some(EdgeConfig::Nbp(Box::<NbpConfig>::default())));
        assert_eq!(hop(&nbp), None);
        let nbq = Mechanism::Nbq(Box::default());
        assert_eq!(hop(&nbq), Some(HopConfig::Nbq(Box::<NbqConfig>::default())));
        assert_eq!(edge(&nbq), None);
        let labels = Labels::Csfq(crate::model::CsfqLabels::default());
        assert_eq!(labeller(&labels), CsfqLabellerConfig::default());
    }
}
