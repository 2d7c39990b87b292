//! The tests of mechanisms against references, standards and ns-2. They are one program, but for `allocations`, which counts what is
//! allocated.

#[path = "../border_world/mod.rs"]
mod border_world;
#[path = "../frozen_trace/mod.rs"]
mod frozen_trace;
#[path = "../ns2_cases/mod.rs"]
mod ns2_cases;
#[path = "../transfer/mod.rs"]
mod transfer;
#[path = "../../examples/two_borders.rs"]
mod two_borders;

mod border;
mod ns2_drop_lists;
mod ns2_queues;
mod reference_autorate;
mod reference_backpressure;
mod reference_cake;
mod reference_cobalt;
mod reference_codel;
mod reference_controls;
mod reference_dualpi2;
mod reference_flow_queueing;
mod reference_fq;
mod reference_managers;
mod reference_scream;
mod reference_subtcp;
mod reference_verdicts;
mod rfc6675;
mod rfc8985;
mod sfb_misclassification;
mod tcp_adversarial;
mod tcp_mathis;
mod tcp_scenarios;
