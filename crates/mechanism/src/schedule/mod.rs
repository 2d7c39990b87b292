//! Who goes next? Schedulers are queue disciplines that own several queues, each under its own manager.
