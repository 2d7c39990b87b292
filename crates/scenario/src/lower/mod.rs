//! From the configurations of a scenario to those of the mechanisms: the only place that names both.

mod edge;
mod hop;
mod marker;
mod queue;
mod tcp;
mod tfrc;

pub use edge::{edge, labeller};
pub use hop::hop;
pub use marker::marker;
pub use queue::{discipline, manager};
pub use tcp::tcp;
pub use tfrc::tfrc;

use tidegate_units::Bytes;

/// Sizes that were checked to fit.
pub(crate) fn bytes32(bytes: Bytes) -> u32 {
    u32::try_from(bytes.get()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use tidegate_mechanism::edge::EdgeConfig;
    use tidegate_mechanism::edge::iec::{Detection, IecConfig};
    use tidegate_mechanism::edge::nbp::NbpConfig;
    use tidegate_mechanism::hop::HopConfig;
    use tidegate_mechanism::hop::backpressure::BackPressureConfig;
    use tidegate_mechanism::hop::nbq::NbqConfig;
    use tidegate_mechanism::meter::CsfqLabellerConfig;
    use tidegate_mechanism::queue::{
        AdaptiveRedConfig, BlueConfig, DropTailConfig, EecMarkerConfig, EredConfig, FredConfig,
        ManagerConfig, RedConfig, RedPenaltyBoxConfig, SfbConfig,
    };
    use tidegate_mechanism::schedule::{CbqConfig, DisciplineConfig, PriorityConfig, SfqConfig, WfqConfig};

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
            plain(Queue::AdaptiveRed(crate::model::AdaptiveRed::default())),
            DisciplineConfig::Fifo(ManagerConfig::AdaptiveRed(AdaptiveRedConfig::default()))
        );
        assert_eq!(
            plain(Queue::RedPenaltyBox(crate::model::RedPenaltyBox::default())),
            DisciplineConfig::Fifo(ManagerConfig::RedPenaltyBox(RedPenaltyBoxConfig::default()))
        );
        assert_eq!(
            plain(Queue::Blue(crate::model::Blue::default())),
            DisciplineConfig::Fifo(ManagerConfig::Blue(BlueConfig::default()))
        );
        assert_eq!(
            plain(Queue::Fred(crate::model::Fred::default())),
            DisciplineConfig::Fifo(ManagerConfig::Fred(FredConfig::default()))
        );
        assert_eq!(
            plain(Queue::Ered(crate::model::Ered::default())),
            DisciplineConfig::Fifo(ManagerConfig::Ered(EredConfig::default()))
        );
        assert_eq!(tfrc(&crate::model::Tfrc::default()), tidegate_mechanism::tfrc::TfrcConfig::default());
        assert_eq!(
            plain(Queue::Sfb(Box::default())),
            DisciplineConfig::Fifo(ManagerConfig::Sfb(SfbConfig::default()))
        );
        assert_eq!(
            plain(Queue::default()),
            DisciplineConfig::Fifo(ManagerConfig::DropTail(DropTailConfig::default()))
        );
        assert_eq!(
            plain(Queue::Wfq(crate::model::Wfq::default())),
            DisciplineConfig::Wfq(WfqConfig::default())
        );
        assert_eq!(
            plain(Queue::Sfq(crate::model::Sfq::default())),
            DisciplineConfig::Sfq(SfqConfig::default())
        );
        assert_eq!(
            plain(Queue::Priority(crate::model::Priority::default())),
            DisciplineConfig::Priority(PriorityConfig::default())
        );
        let whole = serde_json::from_str(r#"{"classes": [{"name": "all", "share": 1.0}]}"#);
        let whole: crate::model::Cbq = whole.expect("a link of one class");
        assert_eq!(plain(Queue::Cbq(whole)), DisciplineConfig::Cbq(CbqConfig::default()));
        let nbp = Mechanism::Nbp(Box::default());
        assert_eq!(edge(&nbp), Some(EdgeConfig::Nbp(Box::<NbpConfig>::default())));
        let iec = Mechanism::Iec(Box::default());
        assert_eq!(edge(&iec), Some(EdgeConfig::Iec(Box::<IecConfig>::default())));
        let eec = Mechanism::Eec(Box::default());
        let marks = IecConfig { detection: Detection::Marks, ..IecConfig::default() };
        assert_eq!(edge(&eec), Some(EdgeConfig::Iec(Box::new(marks))));
        assert_eq!(
            plain(Queue::EecMarker(crate::model::EecMarker::default())),
            DisciplineConfig::Fifo(ManagerConfig::EecMarker(EecMarkerConfig::default()))
        );
        assert_eq!(hop(&nbp), None);
        let nbq = Mechanism::Nbq(Box::default());
        assert_eq!(hop(&nbq), Some(HopConfig::Nbq(Box::<NbqConfig>::default())));
        assert_eq!(edge(&nbq), None);
        let back = Mechanism::BackPressure(Box::default());
        assert_eq!(hop(&back), Some(HopConfig::BackPressure(Box::<BackPressureConfig>::default())));
        let labels = Labels::Csfq(crate::model::CsfqLabels::default());
        assert_eq!(labeller(&labels), CsfqLabellerConfig::default());
    }
}
