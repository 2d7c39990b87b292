//! Tidegate with a queue manager of its own. Add a line to `register` for each further mechanism.

mod coin;

use tidegate_own::{RegistryError, queue};

fn register() -> Result<(), RegistryError> {
    queue::own::register::<coin::CoinConfig>("coin")
}

tidegate_own::module!(_core, register);
