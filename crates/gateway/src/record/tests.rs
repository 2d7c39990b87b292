//! Records one by one, and gateways that are recorded and replayed.
