//! The state file of the gateway: any bytes are a state, which is written as it was read, or none.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_gateway::daemon::state::State;

fuzz_target!(|bytes: &[u8]| {
    if let Some(state) = State::decode(bytes) {
        assert_eq!(State::decode(&state.encode()), Some(state));
    }
});
