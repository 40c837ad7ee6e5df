//! Where an agent is asked how it fares: a TCP address or a Unix socket, as `--listen` and `status --agent` take it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::{ffi::OsStr, ffi::OsString, fmt, os::unix::ffi::OsStrExt, path::Path, path::PathBuf};

use crate::{escape::escaped_path, shell::Part};

/// The most bytes of a socket's path that the kernel takes.
const LONGEST: usize = 107;

/// A TCP address or a Unix socket. `Display` is what can be typed for it, escaped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// An IP address and a port.
    Tcp(SocketAddr),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl Address {
    /// Reads `127.0.0.1:19187`, `[::1]:19187`, `localhost:19187`, `unix:PATH`, or a path with a slash in it. No other host
    /// name is looked up.
    pub fn parse(text: &OsStr) -> Result<Self, String> {
        let bytes = text.as_bytes();
        let path = bytes
            .strip_prefix(b"unix:")
            .or_else(|| bytes.contains(&b'/').then_some(bytes));
        if let Some(path) = path {
            return Self::unix(Path::new(OsStr::from_bytes(path)));
        }
        let shown = escaped_path(Path::new(text));
        let wrong = || {
            format!(
                "{shown:?} is no address; examples: 127.0.0.1:19187, localhost:19187, [::1]:19187, unix:PATH"
            )
        };
        let text = text.to_str().ok_or_else(wrong)?;
        let named = text.rsplit_once(':');
        if let Some((_, port)) = named.filter(|(host, _)| host.eq_ignore_ascii_case("localhost")) {
            let port = port.parse().map_err(|_| wrong())?;
            return Ok(Self::Tcp((Ipv4Addr::LOCALHOST, port).into()));
        }
        text.parse().map(Self::Tcp).map_err(|_| wrong())
    }

    fn unix(path: &Path) -> Result<Self, String> {
        let bytes = path.as_os_str().as_bytes();
        if bytes.is_empty() || bytes.contains(&0) || bytes.ends_with(b"/") {
            return Err(
                "a socket needs a path; type unix:/run/user/1000/beadlock-agent.sock".to_owned(),
            );
        }
        Ok(Self::Unix(path.to_owned()))
    }

    /// A relative path of a socket begins in `base`.
    pub fn below(self, base: &Path) -> Result<Self, String> {
        let Self::Unix(path) = self else {
            return Ok(self);
        };
        let path = base.join(path);
        match path.as_os_str().len() {
            0..=LONGEST => Ok(Self::Unix(path)),
            _ => Err(format!(
                "{} is too long for a socket: at most {LONGEST} bytes",
                escaped_path(&path)
            )),
        }
    }

    /// The word that names it in a command.
    pub fn part(&self) -> Part<'static> {
        Part::Words(vec![match self {
            Self::Tcp(address) => address.to_string().into(),
            Self::Unix(path) => {
                let mut word = OsString::from("unix:");
                word.push(path);
                word
            }
        }])
    }

    /// True when no other machine can reach the address.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Tcp(address) => match address.ip() {
                IpAddr::V4(ip) => ip.is_loopback(),
                IpAddr::V6(ip) => {
                    ip.is_loopback() || ip.to_ipv4_mapped().is_some_and(|ip| ip.is_loopback())
                }
            },
            Self::Unix(_) => true,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", escaped_path(path)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Address, String> {
        Address::parse(OsStr::new(text))
    }

    #[test]
    fn reads_what_the_help_names() {
        for (text, shown, is_local) in [
            ("127.0.0.1:19187", "127.0.0.1:19187", true),
            ("127.9.9.9:0", "127.9.9.9:0", true),
            ("[::1]:80", "[::1]:80", true),
            ("[::ffff:127.0.0.1]:80", "[::ffff:127.0.0.1]:80", true),
            ("localhost:80", "127.0.0.1:80", true),
            ("LocalHost:80", "127.0.0.1:80", true),
            ("unix:a.sock", "unix:a.sock", true),
            ("unix:a:b", "unix:a:b", true),
            ("./a.sock", "unix:./a.sock", true),
            ("/run/a\nb", r"unix:/run/a\nb", true),
            ("0.0.0.0:80", "0.0.0.0:80", false),
            ("[::]:80", "[::]:80", false),
            ("10.0.0.1:80", "10.0.0.1:80", false),
        ] {
            let address = parsed(text).unwrap();
            assert_eq!(
                (address.to_string().as_str(), address.is_local()),
                (shown, is_local),
                "{text}"
            );
        }
    }

    #[test]
    fn refuses_the_rest_with_examples() {
        for text in [
            "",
            "x",
            "19187",
            ":19187",
            "127.0.0.1",
            "example.org:80",
            "localhost:",
            "localhost:99999",
        ] {
            assert!(
                parsed(text)
                    .unwrap_err()
                    .contains("examples: 127.0.0.1:19187"),
                "{text}"
            );
        }
        assert!(
            Address::parse(OsStr::from_bytes(b"\xff"))
                .unwrap_err()
                .contains("examples")
        );
        for text in ["unix:", "/", "unix:a/", "unix:a\0b"] {
            assert!(
                parsed(text).unwrap_err().contains("a socket needs a path"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_relative_path_begins_where_it_is_said_and_is_not_too_long() {
        let below = |text: &str| parsed(text).unwrap().below(Path::new("/base"));
        assert_eq!(
            below("unix:a.sock"),
            Ok(Address::Unix("/base/a.sock".into()))
        );
        assert_eq!(below("/run/a"), Ok(Address::Unix("/run/a".into())));
        assert!(below(&format!("unix:/{}", "x".repeat(LONGEST - 1))).is_ok());
        assert!(
            below(&format!("unix:/{}", "x".repeat(LONGEST)))
                .unwrap_err()
                .contains("too long")
        );
    }
}
