//! The connections: few, short, and small.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

use super::listener::Listener;
use super::pages::Pages;

/// How many there are at once; the others wait in the kernel.
const CONNECTIONS: usize = 16;

/// What a request's head may have: bytes, and lines.
const HEAD: (usize, usize) = (16 * 1024, 64);

/// How long a client may take to send it.
const ASKING: Duration = Duration::from_secs(3);

/// How long a connection may take in all, also of a client that does not read its answer.
const ALL: Duration = Duration::from_secs(10);

/// Before the next try, when no connection can be had: no descriptors, most likely.
const PAUSE: Duration = Duration::from_millis(100);

/// Answers for ever.
pub(super) async fn serve(listener: Listener, pages: Arc<Pages>) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    while let Ok(place) = Arc::clone(&room).acquire_owned().await {
        let pages = Arc::clone(&pages);
        let taken = match &listener {
            Listener::Tcp(listener) => {
                listener.accept().await.map(|(stream, _)| attend(stream, place, pages))
            }
            Listener::Unix(listener) => {
                listener.accept().await.map(|(stream, _)| attend(stream, place, pages))
            }
        };
        if taken.is_err() {
            sleep(PAUSE).await;
        }
    }
}

/// One request, beside the others. What goes wrong with it is its client's.
fn attend(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    place: OwnedSemaphorePermit,
    pages: Arc<Pages>,
) {
    tokio::spawn(async move {
        let answer = service_fn(|request| {
            let pages = Arc::clone(&pages);
            async move { Ok::<_, Infallible>(pages.answer(&request).await) }
        });
        let mut http = http1::Builder::new();
        http.keep_alive(false).max_buf_size(HEAD.0).max_headers(HEAD.1);
        http.timer(TokioTimer::new()).header_read_timeout(ASKING);
        let _ = timeout(ALL, http.serve_connection(TokioIo::new(stream), answer)).await;
        drop(place);
    });
}
