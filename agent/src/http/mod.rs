//! The agent seen from outside (`--listen`, docs/design.md#the-log): `/metrics`, `/healthz` and `/status` over HTTP.
//!
//! Cycles only count, in atomics ([`metrics`]). The rest is made for each request: the scheduler gets a question
//! through its loop ([`questions`]) and answers with a [`snapshot`], which proves that the loop turns. Connections are
//! few, short and small ([`server`], [`connections`]), in a thread of their own, so that a slow client delays no cycle.
//! Only an error at the start ends the agent.

mod connections;
mod form;
mod gauges;
mod listener;
mod metrics;
mod pages;
mod process;
mod questions;
mod server;
mod snapshot;

use std::io;
use std::sync::Arc;

use beadlock_base::address::Address;
use tokio::runtime::{Builder, Runtime};

use self::connections::{ConnectionLimits, OpenConnections};
use self::listener::{Listener, OwnSocket};
pub(crate) use self::metrics::Metrics;
use self::metrics::PREFIX;
use self::pages::Pages;
use self::questions::{Asks, PATIENCE};
pub(crate) use self::questions::{Question, Questions};
use self::snapshot::StatusPage;
pub(crate) use self::snapshot::{DatabaseSnapshot, EndedCycle, NOT_SERVING, StatusSnapshot};

/// An open listener, until this is dropped.
#[must_use = "dropped, its socket is removed"]
pub(crate) struct HttpEndpoint {
    /// The address of the listener, with the port that the kernel chose where the user gave port 0.
    pub(crate) address: Address,
    _thread: Runtime,
    _socket: Option<OwnSocket>,
}

impl HttpEndpoint {
    /// Listens, and answers from now on with what the scheduler says to the questions.
    pub(crate) fn open(
        address: &Address,
        is_anywhere: bool,
        metrics: Arc<Metrics>,
    ) -> io::Result<(Self, Questions)> {
        let thread = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build();
        let thread = thread.map_err(crate::limits::no_events)?;
        let (listener, socket) = thread.block_on(Listener::bind(address))?;
        let address = listener.address(address);
        let (asks, questions) = questions::channel();
        let names_are_checked = !is_anywhere && matches!(address, Address::Tcp(_));
        let pages = Pages::new(metrics, asks, names_are_checked);
        thread.spawn(server::serve(listener, Arc::new(pages)));
        Ok((
            Self {
                address,
                _thread: thread,
                _socket: socket,
            },
            questions,
        ))
    }
}
