//! The connections: few, short, and small.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{sleep, timeout};

use super::{ConnectionLimits, Listener, OpenConnections, Pages};

const LIMITS: ConnectionLimits = ConnectionLimits {
    size: 32,
    asking: Duration::from_millis(50),
    answering: Duration::from_secs(1),
};

/// The longest head of a request, in bytes and in lines.
const HEAD: (usize, usize) = (16 * 1024, 64);
/// How long a client may take to send the head.
const ASKING: Duration = Duration::from_secs(3);
/// How long a connection may take in all.
const ALL: Duration = Duration::from_secs(10);
/// The time until the next try after an error, which is most likely a lack of descriptors.
const PAUSE: Duration = Duration::from_millis(100);

pub(super) async fn serve(listener: Listener, pages: Arc<Pages>) {
    let mut crowd = OpenConnections::new(LIMITS);
    loop {
        let pages = Arc::clone(&pages);
        match &listener {
            Listener::Tcp(listener) => match listener.accept().await {
                Ok((stream, _)) => crowd.admit(|asked| attend(stream, asked, pages)).await,
                Err(_) => sleep(PAUSE).await,
            },
            Listener::Unix(listener) => match listener.accept().await {
                Ok((stream, _)) => crowd.admit(|asked| attend(stream, asked, pages)).await,
                Err(_) => sleep(PAUSE).await,
            },
        }
    }
}

/// Answers one request. Its errors are left to its client.
async fn attend(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    asked: Arc<AtomicBool>,
    pages: Arc<Pages>,
) {
    let answer = service_fn(|request| {
        asked.store(true, Ordering::Relaxed);
        let pages = Arc::clone(&pages);
        async move { Ok::<_, Infallible>(pages.answer(&request).await) }
    });
    let mut http = http1::Builder::new();
    http.keep_alive(false)
        .max_buf_size(HEAD.0)
        .max_headers(HEAD.1);
    http.timer(TokioTimer::new()).header_read_timeout(ASKING);
    let _ = timeout(ALL, http.serve_connection(TokioIo::new(stream), answer)).await;
}
