//! Real time needs its processor when something is due, and its memory in reach: the loop runs at real-time priority, with its
//! memory locked, where the system allows it.
//!
//! Both belong to the thread that asks, from then on: processes and threads that were started before have neither. On a machine
//! whose processors are all busy this is the difference between packets that are some milliseconds late and some dozen
//! microseconds.

use nix::libc::MCL_ONFAULT;
use nix::sys::mman::{MlockAllFlags, mlockall};
use serde_json::{Value, json};
use thread_priority::{
    NormalThreadSchedulePolicy, RealtimeThreadSchedulePolicy, ThreadPriority, ThreadPriorityValue,
    ThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id,
};

const REALTIME: ThreadSchedulePolicy =
    ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::RoundRobin);
const NORMAL: ThreadSchedulePolicy = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Other);
/// Above all programs that asked for nothing, below what the kernel itself runs so (50: threads of interrupts).
const URGENT: u8 = 10;
/// What this library calls a niceness of 0.
const NOT_NICE: u8 = 49;

/// What the system granted. Dropping it gives the processor back.
#[derive(Debug)]
pub struct Urgency {
    is_asked: bool,
    priority: &'static str,
    is_memory_locked: bool,
}

impl Urgency {
    /// Asks for real-time priority and for locked memory; where the first is refused, for the least niceness.
    pub fn take() -> Self {
        let urgent = ThreadPriority::Crossplatform(ThreadPriorityValue::try_from(URGENT).expect("below 100"));
        let priority = if set(urgent, REALTIME) {
            "real-time"
        } else if set(ThreadPriority::Max, NORMAL) {
            "raised"
        } else {
            "normal"
        };
        // What is touched stays; what never is costs nothing.
        let flags = MlockAllFlags::MCL_CURRENT | MlockAllFlags::from_bits_retain(MCL_ONFAULT);
        Self { is_asked: true, priority, is_memory_locked: mlockall(flags).is_ok() }
    }

    /// Asks for nothing.
    pub const fn normal() -> Self {
        Self { is_asked: false, priority: "normal", is_memory_locked: false }
    }

    /// For the results.
    pub fn to_json(&self) -> Value {
        json!({ "asked": self.is_asked, "priority": self.priority, "memory_locked": self.is_memory_locked })
    }
}

impl Drop for Urgency {
    fn drop(&mut self) {
        if self.priority != "normal" {
            let usual = ThreadPriorityValue::try_from(NOT_NICE).expect("below 100");
            // Less is always granted.
            set(ThreadPriority::Crossplatform(usual), NORMAL);
        }
    }
}

/// Whether the calling thread is served so from now on.
fn set(priority: ThreadPriority, policy: ThreadSchedulePolicy) -> bool {
    set_thread_priority_and_policy(thread_native_id(), priority, policy).is_ok()
}
