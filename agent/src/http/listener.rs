//! The listener: a TCP port, or a Unix socket to which only this user can connect.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use beadlock_base::address::Address;
use beadlock_base::error::system_words;
use beadlock_base::shell::{Part, to_type};
use nix::fcntl::OFlag;
use nix::sys::stat::{Mode, fchmod};
use tokio::net::{TcpListener, UnixListener, UnixSocket, UnixStream};
use tokio::time::sleep;

/// How many connections may wait in the kernel.
const WAITING: u32 = 64;
/// The time between two looks at a socket without a listener: its agent may just be starting.
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// A socket's file. When this is dropped, the file is removed if it is still the same one. It is held open, so that
/// its inode number cannot become another file's.
#[derive(Debug)]
pub(super) struct OwnSocket {
    path: PathBuf,
    file: File,
}

impl Listener {
    /// Listens, within the runtime. A socket that a dead agent has left behind is replaced.
    pub(super) async fn bind(address: &Address) -> io::Result<(Self, Option<OwnSocket>)> {
        match address {
            Address::Tcp(to) => {
                let listener = TcpListener::bind(to).await.map_err(|error| {
                    let advice = match error.kind() {
                        ErrorKind::AddrInUse => {
                            "; another agent's? Name another port with --listen"
                        }
                        _ => "; name another one with --listen",
                    };
                    refused(address, format_args!("{}{advice}", system_words(&error)))
                })?;
                Ok((Self::Tcp(listener), None))
            }
            Address::Unix(path) => {
                let (listener, socket) = at(path).await.map_err(|why| refused(address, why))?;
                Ok((Self::Unix(listener), Some(socket)))
            }
        }
    }

    /// Where it listens, with the port that the kernel has chosen.
    pub(super) fn address(&self, asked: &Address) -> Address {
        match self {
            Self::Tcp(listener) => listener
                .local_addr()
                .map_or_else(|_| asked.clone(), Address::Tcp),
            Self::Unix(_) => asked.clone(),
        }
    }
}

fn refused(address: &Address, why: impl std::fmt::Display) -> io::Error {
    io::Error::other(format!("cannot listen at {address}: {why}"))
}

async fn at(path: &Path) -> Result<(UnixListener, OwnSocket), String> {
    let words =
        |error: io::Error| format!("{}; name another one with --listen", system_words(&error));
    match listen(path) {
        Err(error) if error.kind() == ErrorKind::AddrInUse => {}
        listening => return listening.map_err(words),
    }
    // It is removed only if it is still the same one: another agent's stays.
    drop(left_behind(path).await?);
    listen(path).map_err(words)
}

/// The mode is set before there is a file, so that nobody else can connect meanwhile.
fn listen(path: &Path) -> io::Result<(UnixListener, OwnSocket)> {
    let socket = UnixSocket::new_stream()?;
    fchmod(&socket, Mode::S_IRUSR | Mode::S_IWUSR)?;
    socket.bind(path)?;
    let own = OwnSocket {
        path: path.to_owned(),
        file: held(path)?,
    };
    Ok((socket.listen(WAITING)?, own))
}

/// A socket without a listener; that is tried twice.
async fn left_behind(path: &Path) -> Result<OwnSocket, String> {
    let words = |error: io::Error| system_words(&error);
    if !fs::symlink_metadata(path)
        .map_err(words)?
        .file_type()
        .is_socket()
    {
        return Err(
            "there is a file that is no socket; move it away, or name another path".to_owned(),
        );
    }
    let file = held(path).map_err(words)?;
    for _ in 0..2 {
        match UnixStream::connect(path).await {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => sleep(PAUSE).await,
            Err(error) => return Err(format!("somebody else's socket: {}", system_words(&error))),
            Ok(stream) => {
                let pid = stream.peer_cred().ok().and_then(|peer| peer.pid());
                let who = pid.map_or_else(|| "somebody".to_owned(), |pid| format!("PID {pid}"));
                let advice = to_type("beadlock status --agent {}", &[Part::Path(path)]);
                return Err(format!(
                    "{who} listens there; ask it with {advice}, or name another path"
                ));
            }
        }
    }
    Ok(OwnSocket {
        path: path.to_owned(),
        file,
    })
}

/// Holds what lies there now, which keeps its inode number.
fn held(path: &Path) -> io::Result<File> {
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW;
    OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits())
        .open(path)
}

impl Drop for OwnSocket {
    #[expect(clippy::disallowed_methods, reason = "it is a socket, not a lock")]
    fn drop(&mut self) {
        let inode = |meta: fs::Metadata| (meta.file_type().is_socket(), meta.dev(), meta.ino());
        let (this, there) = (
            self.file.metadata().map(inode),
            fs::symlink_metadata(&self.path).map(inode),
        );
        if let (Ok(this), Ok(there)) = (this, there)
            && this.0
            && this == there
        {
            let _ = fs::remove_file(&self.path);
        }
    }
}
