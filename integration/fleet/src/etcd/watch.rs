//! A watch says when to look, and nothing else: the state is read. So a watch begins anew without a revision to go on
//! from, and does not miss the events that a compaction takes away. Each time that it is in place it says so, and that
//! is a look. The looks beside a watch make up for one that is silently dead, which is begun anew after a minute.

use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::json;

use super::http::random_byte;
use super::wire::{WatchLine, encoded};
use super::{Client, txn::after};

/// The longest line that is read. A longer one is thrown away, and is a reason to look.
const LONGEST_LINE: u64 = 1024 * 1024;

/// The keys that a watch covers.
#[derive(Debug, Clone)]
pub(crate) enum WatchedKeys {
    Key(String),
    /// All keys that begin with this prefix.
    Below(String),
}

/// A watch in a thread of its own. Dropped, it says nothing more; its thread ends with the stream.
#[derive(Debug)]
pub(crate) struct EtcdWatch {
    is_over: Arc<AtomicBool>,
}

impl EtcdWatch {
    /// Calls `ring` whenever a key that `matters` may have changed.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub(crate) fn begin(
        client: Arc<Client>,
        watched: &[WatchedKeys],
        matters: impl Fn(&[u8]) -> bool + Send + 'static,
        ring: impl Fn() + Send + 'static,
    ) -> io::Result<Self> {
        let is_over = Arc::new(AtomicBool::new(false));
        let (body, over) = (body(watched), Arc::clone(&is_over));
        thread::Builder::new()
            .name("fleet-watch".to_owned())
            .spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    let has_worked = follow(&client, &body, &over, (&matters, &ring));
                    // Not all at once after a restart, and not in a circle.
                    let pause = if has_worked { 20 } else { 500 };
                    thread::sleep(Duration::from_millis(
                        pause + pause * u64::from(random_byte()) / 255,
                    ));
                }
            })?;
        Ok(Self { is_over })
    }
}

impl Drop for EtcdWatch {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// The body of a watch: one request for each entry, in one stream.
fn body(watched: &[WatchedKeys]) -> String {
    watched
        .iter()
        .map(|one| {
            let request = match one {
                WatchedKeys::Key(key) => json!({"key": encoded(key)}),
                WatchedKeys::Below(prefix) => {
                    json!({"key": encoded(prefix), "range_end": encoded(after(prefix))})
                }
            };
            format!("{}\n", json!({"create_request": request}))
        })
        .collect()
}

/// Follows one stream to its end. True: the watch was in place.
fn follow(
    client: &Client,
    body: &str,
    over: &AtomicBool,
    (matters, ring): (&impl Fn(&[u8]) -> bool, &impl Fn()),
) -> bool {
    let opened = client.with_any(|node| client.stream_at(node, "/v3/watch", body.to_owned()));
    let Ok(stream) = opened else { return false };
    let mut lines = BufReader::new(stream);
    let mut was_in_place = false;
    loop {
        let mut line = Vec::new();
        let read = lines
            .by_ref()
            .take(LONGEST_LINE)
            .read_until(b'\n', &mut line);
        if over.load(Ordering::Relaxed) || !read.is_ok_and(|count| count > 0) {
            return was_in_place;
        }
        match WatchLine::parse(&line) {
            Some(WatchLine::Progress) => {}
            Some(WatchLine::Created) => {
                was_in_place = true;
                ring();
            }
            Some(WatchLine::Changed(keys)) if keys.iter().any(|key| matters(key)) => ring(),
            Some(WatchLine::Changed(_)) => {}
            Some(WatchLine::Canceled) => {
                ring();
                return was_in_place;
            }
            None if line.trim_ascii().is_empty() => {}
            None => {
                ring();
                return false;
            }
        }
    }
}
