//! One GET, bounded in time and size. HTTP/1.0 with the connection's end as the body's: nothing to decode.

use beadlock_claim::error::Problem;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use beadlock_base::address::Address;
use beadlock_base::error::system_words;
use beadlock_base::escape::escaped;

use beadlock_claim::error::{Code, Error};
use beadlock_claim::words::to_type;

/// The usual limit for a whole request, from the connection to the end of the answer. The agent itself gives up sooner.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// The longest answer that is read, in bytes. An answer about 10,000 databases needs a tenth of it.
const LARGEST: u64 = 64 * 1024 * 1024;

/// Why no agent answers. `Display` says what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoAnswer {
    code: Code,
    /// The failure in words, with the address that was asked, but without the advice.
    pub what: String,
    /// Advice to start an agent or to name another address; only where there seems to be no agent.
    advice: Option<String>,
    retry_after: Option<Duration>,
}

impl NoAnswer {
    pub fn new(code: Code, what: String) -> Self {
        Self {
            code,
            what,
            advice: None,
            retry_after: None,
        }
    }
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        match &self.advice {
            Some(advice) => write!(f, "; {advice}"),
            None => Ok(()),
        }
    }
}

impl From<NoAnswer> for Error {
    fn from(none: NoAnswer) -> Self {
        let error = Self::new(none.code, none.to_string());
        match none.retry_after {
            Some(after) => error.retry_after(after),
            None => error,
        }
    }
}

/// Asks the agent at `address` for `page`, and returns the body of its answer.
///
/// # Errors
/// When the request fails, when no answer comes within `patience`, or when its status is not 200.
pub fn get(address: &Address, page: &'static str, patience: Duration) -> Result<Vec<u8>, NoAnswer> {
    let (to, from) = mpsc::channel();
    let asked = address.clone();
    // Beside: a socket with a full queue and one that drips would each keep a reader for ever.
    let asking = thread::Builder::new().spawn(move || to.send(exchange(&asked, page)));
    let answer = match asking.map(|_| from.recv_timeout(patience)) {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => {
            let seconds = patience.as_secs();
            let message =
                format!("{address} does not answer within {seconds}s; is the agent stopped?");
            return Err(NoAnswer {
                retry_after: Some(patience),
                ..NoAnswer::new(Code::Io, message)
            });
        }
        Err(error) => Err(error),
    };
    let failed = |error: io::Error| {
        let words = system_words(&error);
        if error.kind() == io::ErrorKind::PermissionDenied {
            let message = format!("{address} may be asked by its agent's user alone: {words}");
            return NoAnswer::new(Code::NotPermitted, message);
        }
        let start = to_type("beadlock-agent --listen {}", &[address.part()]);
        let advice = format!("start one with {start}, or name where it listens");
        NoAnswer {
            advice: Some(advice),
            ..NoAnswer::new(Code::Io, format!("no agent answers at {address}: {words}"))
        }
    };
    body(&answer.map_err(failed)?).map_err(|why| {
        NoAnswer::new(
            Code::Io,
            format!("{address} answers, but not as an agent: {why}"),
        )
    })
}

fn exchange(address: &Address, page: &str) -> io::Result<Vec<u8>> {
    match address {
        Address::Tcp(to) => ask(TcpStream::connect_timeout(to, PATIENCE)?, page),
        Address::Unix(path) => ask(UnixStream::connect(path)?, page),
    }
}

fn ask(mut stream: impl Read + Write, page: &str) -> io::Result<Vec<u8>> {
    stream.write_all(format!("GET {page} HTTP/1.0\r\nConnection: close\r\n\r\n").as_bytes())?;
    let mut answer = Vec::new();
    stream.take(LARGEST + 1).read_to_end(&mut answer)?;
    if answer.len() as u64 > LARGEST {
        return Err(io::Error::other("its answer has no end"));
    }
    Ok(answer)
}

/// The body of an HTTP answer with status 200. `Err`: the words for any other answer, escaped.
fn body(answer: &[u8]) -> Result<Vec<u8>, String> {
    let Some(end) = answer.windows(4).position(|four| four == b"\r\n\r\n") else {
        let beginning = String::from_utf8_lossy(&answer[..answer.len().min(80)]);
        return Err(format!("it says {:?}", escaped(&beginning).to_string()));
    };
    let (head, body) = (String::from_utf8_lossy(&answer[..end]), &answer[end + 4..]);
    let status = head.lines().next().unwrap_or_default();
    if status.split(' ').nth(1) == Some("200") && status.starts_with("HTTP/1.") {
        return Ok(body.to_vec());
    }
    let why = String::from_utf8_lossy(&body[..body.len().min(200)]);
    Err(format!("{}: {}", escaped(status), escaped(why.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_no_agent_answers_is_told_from_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("agent");
        let address = Address::Unix(socket.clone());
        let none = get(&address, "/status", PATIENCE).unwrap_err();
        let (at, what) = (address.to_string(), "no such file or directory");
        assert_eq!(none.what, format!("no agent answers at {at}: {what}"));
        let start = to_type("beadlock-agent --listen {}", &[address.part()]);
        let message = format!(
            "no agent answers at {at}: {what}; start one with {start}, or name where it listens"
        );
        assert_eq!(none.to_string(), message);
        assert_eq!(Error::from(none).to_string(), message);
    }

    #[test]
    fn takes_the_body_of_a_good_answer_and_says_what_a_bad_one_says() {
        assert_eq!(
            body(b"HTTP/1.0 200 OK\r\na: b\r\n\r\n{}\r\n\r\n"),
            Ok(b"{}\r\n\r\n".to_vec())
        );
        assert_eq!(
            body(b"HTTP/1.1 503 x\r\n\r\nthe loop\n"),
            Err("HTTP/1.1 503 x: the loop".to_owned())
        );
        for bad in [
            &b""[..],
            b"\x1b[2J",
            b"HTTP/1.0 200 OK\r\n",
            b"\r\n\r\n",
            b"SSH-2.0\r\n\r\n",
        ] {
            let why = body(bad).unwrap_err();
            assert!(!why.contains('\u{1b}'), "{why}");
        }
    }
}
