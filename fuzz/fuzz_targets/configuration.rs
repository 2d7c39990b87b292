//! The file of the gateway: any text is a plan, or an error that says where.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_gateway::daemon::config;

fuzz_target!(|text: &str| {
    match config::read("gateway.toml", text) {
        Ok(plan) => {
            assert_eq!(plan.names().len(), plan.peers.len());
            assert!(plan.fixed_that_differ(&plan).is_empty());
            assert!(plan.mtu() >= 1280);
        }
        Err(why) => assert!(why.render().contains("gateway.toml")),
    }
});
