//! The nodes of a fleet's etcd, one by one, for `beadlock doctor --fleet`.

use crate::etcd::{Client, Op, Txn};
use crate::keys::FleetKeys;
use crate::{Config, Error};

/// Report on one node of a fleet's etcd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeReport {
    /// `HOST:PORT`.
    pub node: String,
    /// The version of its etcd; `Err`: why it is not known.
    pub version: Result<String, String>,
    /// Whether the node answers a question about the fleet; `Err`: why not.
    pub answers: Result<(), String>,
    /// Whether the node's etcd may revoke a lease that is being renewed, when its leader stands still (etcd issue
    /// 15247).
    pub may_revoke: bool,
}

/// Report on a fleet's etcd, node by node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdReport {
    /// The reports on the nodes of the configuration, in order of their names.
    pub nodes: Vec<NodeReport>,
    /// Whether the server gives web tokens to the user that logs in (`--auth-token jwt`); `None`: nobody logs in.
    pub has_web_tokens: Option<bool>,
}

/// Asks each node of the configuration.
///
/// # Errors
/// [`ErrorKind::Config`](crate::ErrorKind::Config), [`ErrorKind::Io`](crate::ErrorKind::Io): the certificates cannot be read.
pub fn examine(config: &Config) -> Result<EtcdReport, Error> {
    let client = Client::new(config.clone())?;
    let fleet = FleetKeys::below(config.prefix()).fleet();
    let question = Txn::look(&[Op::Get(&fleet)]);
    let nodes: Vec<_> = client.nodes().collect();
    let reports = nodes.into_iter().map(|node| {
        let version = client
            .version_at(node)
            .map_err(|failure| failure.to_string());
        let may_revoke = version.as_ref().is_ok_and(|version| !has_fix(version));
        let answers = client
            .txn_at(node, &question)
            .map(drop)
            .map_err(|failure| failure.to_string());
        NodeReport {
            node: client.name_of(node).to_owned(),
            version,
            answers,
            may_revoke,
        }
    });
    let mut nodes: Vec<NodeReport> = reports.collect();
    nodes.sort_by(|one, other| one.node.cmp(&other.node));
    Ok(EtcdReport {
        nodes,
        has_web_tokens: client.has_web_token(),
    })
}

/// A version with the fix of etcd issue 15247: 3.4.31, 3.5.13, 3.6 and later.
fn has_fix(version: &str) -> bool {
    let mut parts = version
        .split(['.', '-'])
        .map_while(|part| part.parse::<u32>().ok());
    match (parts.next(), parts.next(), parts.next()) {
        (Some(3), Some(4), Some(patch)) => patch >= 31,
        (Some(3), Some(5), Some(patch)) => patch >= 13,
        (Some(3), Some(minor), _) => minor >= 6,
        (Some(major), ..) => major > 3,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_versions_that_keep_a_living_lease() {
        for (version, fixed) in [
            ("3.4.23", false),
            ("3.4.30", false),
            ("3.4.31", true),
            ("3.5.1", false),
            ("3.5.13", true),
            ("3.6.0-rc.1", true),
            ("4.0.0", true),
            ("3.3.99", false),
            ("", false),
            ("x", false),
        ] {
            assert_eq!(has_fix(version), fixed, "{version}");
        }
    }
}
