//! How does the end host react? TCP sender and receiver as state machines.
