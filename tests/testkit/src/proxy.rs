//! A TCP proxy between a client and a server: it can go silent, refuse, be slow, and lose what comes back.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// What becomes of the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passing {
    /// They come through.
    All,
    /// They go nowhere, both ways, and nobody is told.
    Silent,
    /// Connections are closed at once.
    Refuse,
    /// Each message comes so much later: what follows a piece at once is not held up again.
    Slow(Duration),
    /// Requests come through, answers do not.
    NoAnswers,
    /// All but the answers to a watch.
    DeadWatch,
}

/// A proxy to one server. It ends with this value.
pub struct Proxy {
    address: SocketAddr,
    passing: Arc<Mutex<Passing>>,
    is_over: Arc<AtomicBool>,
}

/// How often a waiting thread looks whether something has changed.
const LOOK: Duration = Duration::from_millis(10);

/// Pieces that come this close together are of one message. Its head and its body may be 40 ms apart, for an ACK.
const TOGETHER: Duration = Duration::from_millis(100);

impl Proxy {
    /// To this server, at a port that the system chooses.
    ///
    /// # Panics
    ///
    /// When the system has no port.
    #[track_caller]
    pub fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("a listener");
        let address = listener.local_addr().expect("an address");
        let (passing, is_over) = (
            Arc::new(Mutex::new(Passing::All)),
            Arc::new(AtomicBool::new(false)),
        );
        let proxy = Self {
            address,
            passing: Arc::clone(&passing),
            is_over: Arc::clone(&is_over),
        };
        thread::spawn(move || {
            while !is_over.load(Ordering::SeqCst) {
                match listener.accept() {
                    Ok((client, _)) => serve(client, server, &passing, &is_over),
                    Err(_) => thread::sleep(LOOK),
                }
            }
        });
        proxy
    }

    /// `HOST:PORT` of the proxy.
    pub fn node(&self) -> String {
        self.address.to_string()
    }

    /// From now on, for connections that are open too.
    pub fn pass(&self, passing: Passing) {
        *self.passing.lock().expect("no thread panics with it") = passing;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
    }
}

/// A copy: a lock that is kept while a piece waits would make the other connections wait for it too.
fn now(passing: &Mutex<Passing>) -> Passing {
    *passing.lock().expect("no thread panics with it")
}

fn serve(
    client: TcpStream,
    server: SocketAddr,
    passing: &Arc<Mutex<Passing>>,
    is_over: &Arc<AtomicBool>,
) {
    let (passing, is_over) = (Arc::clone(passing), Arc::clone(is_over));
    thread::spawn(move || {
        // The connection itself is silent too.
        while now(&passing) == Passing::Silent && !is_over.load(Ordering::SeqCst) {
            thread::sleep(LOOK);
        }
        if now(&passing) == Passing::Refuse {
            return;
        }
        let Ok(server) = TcpStream::connect_timeout(&server, Duration::from_secs(2)) else {
            return;
        };
        let ends = [client.try_clone(), server.try_clone()];
        let [Ok(client_again), Ok(server_again)] = ends else {
            return;
        };
        let (also, over) = (Arc::clone(&passing), Arc::clone(&is_over));
        let is_watch = Arc::new(AtomicBool::new(false));
        let watch = Arc::clone(&is_watch);
        thread::spawn(move || pump(server_again, client_again, (&also, &over), (true, &watch)));
        pump(client, server, (&passing, &is_over), (false, &is_watch));
    });
}

/// Until one end closes.
fn pump(
    mut from: TcpStream,
    mut to: TcpStream,
    (passing, is_over): (&Mutex<Passing>, &AtomicBool),
    (is_answer, is_watch): (bool, &AtomicBool),
) {
    let _ = from.set_nonblocking(false);
    let _ = from.set_read_timeout(Some(LOOK));
    let mut piece = [0; 16 * 1024];
    let mut passed = None::<Instant>;
    loop {
        if is_over.load(Ordering::SeqCst) || now(passing) == Passing::Refuse {
            break;
        }
        let count = match from.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                continue;
            }
            Err(_) => break,
        };
        if !is_answer && piece[..count].starts_with(b"POST /v3/watch ") {
            is_watch.store(true, Ordering::SeqCst);
        }
        match now(passing) {
            Passing::Silent => continue,
            Passing::DeadWatch if is_answer && is_watch.load(Ordering::SeqCst) => continue,
            Passing::NoAnswers if is_answer => continue,
            Passing::Slow(by) if passed.is_none_or(|at| at.elapsed() > TOGETHER) => {
                thread::sleep(by);
            }
            _ => {}
        }
        if to.write_all(&piece[..count]).is_err() {
            break;
        }
        passed = Some(Instant::now());
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_network_delays_each_connection_and_none_for_another() {
        let server = TcpListener::bind("127.0.0.1:0").expect("a port");
        let proxy = Proxy::to(server.local_addr().expect("an address"));
        let delay = Duration::from_secs(1);
        proxy.pass(Passing::Slow(delay));
        let begun = Instant::now();
        // One after the other they would take 20 s.
        let clients = [(); 20].map(|()| {
            let mut client = TcpStream::connect(proxy.node()).expect("a connection");
            client.write_all(b"x").expect("a byte is sent");
            client
        });
        for _ in &clients {
            let (mut connection, _) = server.accept().expect("a connection");
            connection.read_exact(&mut [0]).expect("a byte comes");
            assert!(begun.elapsed() >= delay, "{:?}", begun.elapsed());
        }
        assert!(begun.elapsed() < 10 * delay, "{:?}", begun.elapsed());
    }
}
