//! Why a network cannot be simulated.

use std::fmt;

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BuildError {
    /// No path leads from a flow's source to a receiver, or back.
    Unreachable {
        /// The flow.
        flow: String,
        /// From this node.
        from: String,
        /// To this node.
        to: String,
    },
    /// A flow crosses the border of a domain at a router that is not one of its edges.
    CrossesAtCore {
        /// The flow.
        flow: String,
        /// The domain.
        domain: String,
        /// The router.
        node: String,
    },
    /// A fluid cannot flow there.
    Fluid {
        /// The fluid.
        flow: String,
        /// The key of the scenario that is about it.
        key: &'static str,
        /// Why, and what is allowed.
        why: String,
    },
    /// No flow crosses a domain whose edges control what enters.
    DomainUncrossed {
        /// The domain.
        domain: String,
    },
}

impl BuildError {
    /// The fluid that is wrong, if one is, and at which key.
    pub fn fluid(&self) -> Option<(&str, &'static str)> {
        if let Self::Fluid { flow, key, .. } = self { Some((flow, key)) } else { None }
    }

    /// The domain that is wrong, if one is.
    pub fn domain(&self) -> Option<&str> {
        match self {
            Self::Unreachable { .. } | Self::Fluid { .. } => None,
            Self::CrossesAtCore { domain, .. } | Self::DomainUncrossed { domain } => Some(domain),
        }
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable { flow, from, to } => {
                write!(f, "flow `{flow}`: no path leads from `{from}` to `{to}`; add links, or move an end")
            }
            Self::CrossesAtCore { flow, domain, node } => write!(
                f,
                "flow `{flow}` crosses the border of domain `{domain}` at `{node}`, which is inside: a core router, or \
                 shared by domains that trust each other. List `{node}` under `edges` alone, or take the trust away"
            ),
            Self::Fluid { flow, why, .. } => write!(f, "fluid `{flow}`: {why}"),
            Self::DomainUncrossed { domain } => write!(
                f,
                "no flow crosses domain `{domain}` from one of its edges to another, so its mechanism would do nothing; \
                 list the routers between the edges under `core`"
            ),
        }
    }
}
impl std::error::Error for BuildError {}
