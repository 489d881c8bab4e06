//! Which addresses a request may be sent to, and the resolving of names to those alone.

use std::net::{IpAddr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

use crate::domain::canon::hostname::is_public;

/// A name has none but private addresses.
#[derive(Debug, thiserror::Error)]
#[error("the name has no public address")]
pub(super) struct NotPublic;

/// Resolves a name for the connection that is about to be made.
pub(super) struct Resolver {
    pub(super) allow_private: bool,
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let allow_private = self.allow_private;
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            // One private address among public ones is no reason to connect to either.
            if !found.iter().all(|address| is_permitted(address.ip(), allow_private)) {
                return Err(NotPublic.into());
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// Whether the host is a name, or an address that may be connected to.
pub(super) fn literal_is_permitted(url: &Url, allow_private: bool) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => is_permitted(IpAddr::V4(address), allow_private),
        Some(Host::Ipv6(address)) => is_permitted(IpAddr::V6(address), allow_private),
        Some(Host::Domain(_)) => true,
        None => false,
    }
}

fn is_permitted(address: IpAddr, allow_private: bool) -> bool {
    allow_private || is_public(address)
}
