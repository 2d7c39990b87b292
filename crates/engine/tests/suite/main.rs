//! The tests of the engine as a whole. They are one program: what a simulation is made of is generic, and each program that
//! runs one compiles all of it anew.

mod common;
#[path = "../../../mechanism/tests/ns2_cases/mod.rs"]
mod ns2_cases;

mod backpressure;
mod cbq;
mod clients;
mod conservation;
mod controls;
mod cores;
mod crowds;
mod determinism;
mod external;
mod faults;
mod follow;
mod half_duplex;
mod idle;
mod iec;
mod link_trace;
mod markers;
mod maxmin;
mod nbp;
mod nbq;
mod ns2_throughput;
mod ns3_controls;
mod ns3_dumbbell;
mod ns3_queues;
mod ns3_series;
mod pacing;
mod ports;
mod prague;
mod queueing;
mod routing;
mod scream;
mod tcp_loss;
mod tfrc;
mod ties;
mod two_way_tcp;
mod waste;
