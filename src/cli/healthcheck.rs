//! `countersign healthcheck`: for containers, whose image has no other client.

use std::{
    io::{Read as _, Write as _},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream},
    time::Duration,
};

use clap::Args;

use super::{Done, Failure, SettingsArgs};

const PATIENCE: Duration = Duration::from_secs(3);

/// `healthcheck`.
#[derive(Args)]
pub(super) struct Healthcheck {
    #[command(flatten)]
    settings: SettingsArgs,
    /// Where it listens, if not where the settings say
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
}

pub(super) fn run(command: Healthcheck) -> Result<Done, Failure> {
    let listen = match command.listen {
        Some(listen) => listen,
        None => command.settings.load()?.listen,
    };
    let address = SocketAddr::new(reachable(listen.ip()), listen.port());
    match status_of(address) {
        Ok(status) if status == "200" => Ok(Done::Fine),
        Ok(status) => Err(Failure(format!("{address} answers {status:?}"))),
        Err(error) => Err(Failure(format!("{address}: {error}"))),
    }
}

/// Where a service that listens on every address of the machine is found from the machine itself.
fn reachable(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        IpAddr::V4(_) | IpAddr::V6(_) => ip,
    }
}

/// The status of `GET /healthz`: the second word of the answer (RFC 9112 section 4).
fn status_of(address: SocketAddr) -> std::io::Result<String> {
    let mut connection = TcpStream::connect_timeout(&address, PATIENCE)?;
    connection.set_read_timeout(Some(PATIENCE))?;
    connection.set_write_timeout(Some(PATIENCE))?;
    write!(connection, "GET /healthz HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n")?;
    let mut start = [0; 12];
    connection.read_exact(&mut start)?;
    let start = String::from_utf8_lossy(&start).into_owned();
    Ok(start.split(' ').nth(1).unwrap_or_default().to_owned())
}
