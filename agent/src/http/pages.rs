//! The pages: what is answered to which path.

use std::net::IpAddr;
use std::sync::Arc;

use beadlock_core::facts;
use beadlock_core::record::beads::StartedAt;
use hyper::header::{ALLOW, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use tokio::time::Instant;

use super::form::Form;
use super::{Asks, Metrics, PATIENCE, Question, StatusPage, gauges, process};

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

#[derive(Debug)]
pub(super) struct Pages {
    metrics: Arc<Metrics>,
    asks: Asks,
    since: StartedAt,
    /// Only requests to an address or to `localhost` are answered.
    names_are_checked: bool,
}

impl Pages {
    pub(super) fn new(metrics: Arc<Metrics>, asks: Asks, names_are_checked: bool) -> Self {
        Self {
            metrics,
            asks,
            since: facts::now(),
            names_are_checked,
        }
    }

    pub(super) async fn answer<B>(&self, request: &Request<B>) -> Response<String> {
        if self.names_are_checked && !is_this_machine(request) {
            let body = "call this machine by its address: http://127.0.0.1 or http://localhost\n";
            return page(StatusCode::MISDIRECTED_REQUEST, TEXT, body);
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut refused = page(StatusCode::METHOD_NOT_ALLOWED, TEXT, "GET only\n");
            refused
                .headers_mut()
                .insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return refused;
        }
        match request.uri().path() {
            "/metrics" => self.metrics(Form::accepted(request.headers())).await,
            "/healthz" => match self.asks.ask(Question::Turning).await {
                Some(()) => page(StatusCode::OK, TEXT, "ok\n"),
                None => stands_still(),
            },
            "/readyz" => self.ready().await,
            "/status" => self.status().await,
            _ => page(
                StatusCode::NOT_FOUND,
                TEXT,
                "there are /metrics, /healthz, /readyz and /status\n",
            ),
        }
    }

    /// The counters and the process, and the gauges when the scheduler answers.
    async fn metrics(&self, form: Form) -> Response<String> {
        let snapshot = self.asks.ask(Question::Status).await;
        let gauges = snapshot.map(|snapshot| gauges::of(snapshot, Instant::now()));
        let process = process::of(self.metrics.started);
        let registries = [
            Some(&self.metrics.registry),
            Some(&process),
            gauges.as_ref(),
        ];
        let mut text = String::new();
        let written = registries
            .into_iter()
            .flatten()
            .try_for_each(|registry| encode_registry(&mut text, registry))
            .and_then(|()| encode_eof(&mut text));
        match written {
            Ok(()) => page(StatusCode::OK, form.content_type(), form.of(text)),
            Err(error) => page(
                StatusCode::INTERNAL_SERVER_ERROR,
                TEXT,
                format!("{error}\n"),
            ),
        }
    }

    /// Whether every database fares well, or has been in trouble for less than `--stale-after`.
    async fn ready(&self) -> Response<String> {
        let Some(mut snapshot) = self.asks.ask(Question::Status).await else {
            return stands_still();
        };
        snapshot.sort();
        match snapshot.stale(Instant::now()) {
            _ if snapshot.is_ending => page(
                StatusCode::SERVICE_UNAVAILABLE,
                TEXT,
                "the agent is ending\n",
            ),
            lines if lines.is_empty() => page(StatusCode::OK, TEXT, "ready\n"),
            lines => page(StatusCode::SERVICE_UNAVAILABLE, TEXT, lines.concat()),
        }
    }

    async fn status(&self) -> Response<String> {
        let Some(snapshot) = self.asks.ask(Question::Status).await else {
            return stands_still();
        };
        match serde_json::to_string(&StatusPage::of(snapshot, self.since, Instant::now())) {
            Ok(text) => page(StatusCode::OK, JSON, text + "\n"),
            Err(error) => page(
                StatusCode::INTERNAL_SERVER_ERROR,
                TEXT,
                format!("{error}\n"),
            ),
        }
    }
}

fn stands_still() -> Response<String> {
    let body = format!(
        "the agent's loop does not turn: no answer within {}s\n",
        PATIENCE.as_secs()
    );
    page(StatusCode::SERVICE_UNAVAILABLE, TEXT, body)
}

fn page(status: StatusCode, kind: &'static str, body: impl Into<String>) -> Response<String> {
    let mut page = Response::new(body.into());
    *page.status_mut() = status;
    page.headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    page
}

/// Whether a request names this machine. A web page whose own name points here (DNS rebinding) could ask through its
/// visitor's browser, but its requests carry that name.
fn is_this_machine<B>(request: &Request<B>) -> bool {
    let Some(host) = request.headers().get(HOST) else {
        return true;
    };
    let Ok(host) = host.to_str() else {
        return false;
    };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let bare = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'))
        .unwrap_or(name);
    bare.is_empty() || bare.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_calls_this_machine_by_another_name_is_another_pages() {
        let is_let_in =
            |host: &str| is_this_machine(&Request::builder().header(HOST, host).body(()).unwrap());
        for host in [
            "127.0.0.1",
            "127.0.0.1:19187",
            "[::1]:80",
            "[::1]",
            "localhost:1",
            "LOCALHOST",
            "",
        ] {
            assert!(is_let_in(host), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:80",
            "127.0.0.1.evil.example",
            "localhost.evil.example:1",
        ] {
            assert!(!is_let_in(host), "{host}");
        }
        assert!(is_this_machine(&Request::new(())), "HTTP/1.0 names nobody");
    }
}
