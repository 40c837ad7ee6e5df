//! Calls to the nodes: one second each, the next node at once, bounded answers, no proxy of the environment. The
//! log-in is apart: it is done before a token ends, at a time of each process's own, so that a thousand agents do not
//! log in together.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{fmt, io, time::Duration};

use beadlock_base::escape::{escaped, escaped_path};
use beadlock_core::facts;
use rustls::crypto::ring;
use serde_json::{Value, json};
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};

use super::{LeaseLeft, Txn, TxnAnswer, wire};
use crate::keys::Lease;
use crate::{Config, Error, ErrorKind, deadline::T};

/// How long a call may take.
pub(crate) const CALL: Duration = Duration::from_secs(1);

/// The largest answer that is read.
const LIMIT: u64 = 8 * 1024 * 1024;

/// How long a stream is read before it is begun anew: one that is silently dead is only waited for so long.
pub(crate) const STREAM: Duration = Duration::from_secs(60);

/// One of the nodes of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Node(usize);

/// Why a call was not answered as it should.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CallFailure {
    /// This node did not answer, or has no leader; another may.
    Silent(String),
    /// etcd refuses: the code of gRPC, and its words.
    Refused(i64, String),
    /// The certificate, the password file or the answer is wrong.
    Wrong(Error),
}

/// The codes of gRPC that mean something here.
pub(crate) mod code {
    pub(crate) const INVALID: i64 = 3;
    pub(crate) const TOO_LATE: i64 = 4;
    pub(crate) const NOT_FOUND: i64 = 5;
    pub(crate) const EXHAUSTED: i64 = 8;
    pub(crate) const EXISTS: i64 = 9;
    pub(crate) const UNAVAILABLE: i64 = 14;
    pub(crate) const NO_LOGIN: i64 = 16;
}

impl CallFailure {
    /// The error for people, which says where the server is.
    pub(crate) fn error(self, client: &Client) -> Error {
        let source = escaped_path(client.config.source());
        match self {
            Self::Silent(why) => Error::unreachable(&client.config.url(), why),
            Self::Refused(code::INVALID | code::NO_LOGIN, why)
                if client.config.login().is_none() =>
            {
                let add = "add user = \"…\" and password-file = \"…\"";
                Error::new(
                    ErrorKind::Refused,
                    format!("etcd refuses: {}; {add} to {source}", escaped(&why)),
                )
            }
            Self::Refused(_, why) => {
                let check = format!("check user, password-file and the prefix in {source}");
                Error::new(
                    ErrorKind::Refused,
                    format!("etcd refuses: {}; {check}", escaped(&why)),
                )
            }
            Self::Wrong(error) => error,
        }
    }

    /// The lease of the call has lapsed: its session was not renewed in time, and another one has to begin.
    pub(crate) fn is_without_lease(&self) -> bool {
        matches!(self, Self::Refused(code::NOT_FOUND, _))
    }

    /// Trying again later may help.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self, Self::Silent(_))
    }
}

impl fmt::Display for CallFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silent(why) => f.write_str(why),
            Self::Refused(_, why) => write!(f, "etcd refuses: {}", escaped(why)),
            Self::Wrong(error) => error.fmt(f),
        }
    }
}

#[derive(Debug, Default)]
struct Token {
    text: Option<Arc<str>>,
    /// When it is to be renewed, by `CLOCK_BOOTTIME`; `None`: when it is refused.
    due: Option<Duration>,
}

/// The nodes of one etcd. Shared by all threads of a fleet's session.
#[derive(Debug)]
pub(crate) struct Client {
    config: Config,
    agent: ureq::Agent,
    /// The node that answered last.
    current: AtomicUsize,
    token: Mutex<Token>,
}

impl Client {
    /// # Errors
    /// [`ErrorKind::Config`], [`ErrorKind::Io`]: the roots cannot be read.
    pub(crate) fn new(config: Config) -> Result<Self, Error> {
        let mut builder = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .no_delay(true)
            .user_agent(concat!("beadlock-fleet/", env!("CARGO_PKG_VERSION")))
            .timeout_global(Some(CALL));
        if config.is_tls() {
            builder = builder.https_only(true).tls_config(trusting(&config)?);
        }
        let current = AtomicUsize::new(usize::from(random_byte()) % config.nodes().len());
        Ok(Self {
            agent: builder.build().new_agent(),
            config,
            current,
            token: Mutex::default(),
        })
    }

    /// The node that answered last, and the others after it.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = Node> + use<> {
        let (first, count) = (
            self.current.load(Ordering::Relaxed),
            self.config.nodes().len(),
        );
        (0..count).map(move |step| Node((first + step) % count))
    }

    pub(crate) fn name_of(&self, Node(index): Node) -> &str {
        self.config.nodes().get(index).map_or("", String::as_str)
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    fn url(&self, node: Node, path: &str) -> String {
        let scheme = if self.config.is_tls() {
            "https"
        } else {
            "http"
        };
        format!("{scheme}://{}{path}", self.name_of(node))
    }

    /// Calls the node that answered last, and when it is silent the others, each once.
    pub(crate) fn call(&self, path: &str, body: &Value) -> Result<Vec<u8>, CallFailure> {
        self.with_any(|node| self.call_at(node, path, body))
    }

    /// Asks one node after the other until one is not silent.
    pub(crate) fn with_any<A>(
        &self,
        ask: impl Fn(Node) -> Result<A, CallFailure>,
    ) -> Result<A, CallFailure> {
        let mut silent = Vec::new();
        for node in self.nodes() {
            match self.with_this(node, &ask) {
                Err(CallFailure::Silent(why)) => silent.push(why),
                answer => return answer,
            }
        }
        // The next call begins at another.
        self.current.fetch_add(1, Ordering::Relaxed);
        Err(CallFailure::Silent(silent.join(", ")))
    }

    /// Asks this node alone, and remembers it where it is not silent.
    pub(crate) fn with_this<A>(
        &self,
        node: Node,
        ask: impl FnOnce(Node) -> Result<A, CallFailure>,
    ) -> Result<A, CallFailure> {
        let answer = ask(node);
        if !matches!(answer, Err(CallFailure::Silent(_))) {
            self.current.store(node.0, Ordering::Relaxed);
        }
        answer
    }

    /// Calls this node alone. A token that is missing or over is asked for, once.
    pub(crate) fn call_at(
        &self,
        node: Node,
        path: &str,
        body: &Value,
    ) -> Result<Vec<u8>, CallFailure> {
        let token = self.token_at(node)?;
        match self.post(node, path, body, token.as_deref()) {
            Err(CallFailure::Refused(code, why))
                if self.config.login().is_some() && wants_login(code, &why) =>
            {
                let token = self.log_in(node, token.as_deref())?;
                self.post(node, path, body, Some(&token))
            }
            answer => answer,
        }
    }

    fn post(
        &self,
        node: Node,
        path: &str,
        body: &Value,
        token: Option<&str>,
    ) -> Result<Vec<u8>, CallFailure> {
        let mut request = self
            .agent
            .post(self.url(node, path))
            .header("content-type", "application/json");
        if let Some(token) = token {
            request = request.header("authorization", token);
        }
        let mut response = request
            .send(body.to_string())
            .map_err(|error| self.failure(node, &error))?;
        let status = response.status();
        let bytes = response.body_mut().with_config().limit(LIMIT).read_to_vec();
        let bytes = bytes.map_err(|error| self.failure(node, &error))?;
        match wire::refusal(&bytes) {
            Some((code::UNAVAILABLE | code::TOO_LATE | code::EXHAUSTED, why)) => {
                Err(self.silent(node, &escaped(&why)))
            }
            Some((code, why)) => Err(CallFailure::Refused(code, why)),
            None if status.is_success() => Ok(bytes),
            None => Err(self.silent(node, &format_args!("HTTP status {}", status.as_u16()))),
        }
    }

    /// Begins a stream at this node: the reader ends after [`STREAM`], and blocks meanwhile.
    pub(crate) fn stream_at(
        &self,
        node: Node,
        path: &str,
        body: String,
    ) -> Result<impl io::Read + use<>, CallFailure> {
        let token = self.token_at(node)?;
        let mut request = self
            .agent
            .post(self.url(node, path))
            .header("content-type", "application/json");
        if let Some(token) = &token {
            request = request.header("authorization", &**token);
        }
        let request = request
            .config()
            .timeout_global(None)
            .timeout_connect(Some(CALL));
        let request = request
            .timeout_recv_response(Some(STREAM))
            .timeout_recv_body(Some(STREAM))
            .build();
        let response = request
            .send(body)
            .map_err(|error| self.failure(node, &error))?;
        if !response.status().is_success() {
            return Err(self.silent(
                node,
                &format_args!("HTTP status {}", response.status().as_u16()),
            ));
        }
        Ok(response
            .into_body()
            .into_with_config()
            .limit(LIMIT)
            .reader())
    }

    fn silent(&self, node: Node, why: &dyn fmt::Display) -> CallFailure {
        CallFailure::Silent(format!("{}: {why}", self.name_of(node)))
    }

    fn failure(&self, node: Node, error: &ureq::Error) -> CallFailure {
        let name = self.name_of(node);
        let wrong = |words: String| CallFailure::Wrong(Error::new(ErrorKind::Refused, words));
        match error {
            ureq::Error::Timeout(_) => self.silent(node, &"no answer within 1s"),
            ureq::Error::BodyExceedsLimit(_) => {
                self.silent(node, &"its answer is larger than 8 MiB")
            }
            ureq::Error::Rustls(error) => wrong(certificate_words(name, &error.to_string())),
            ureq::Error::Io(error) => match error
                .get_ref()
                .and_then(|inner| inner.downcast_ref::<rustls::Error>())
            {
                Some(error) => wrong(certificate_words(name, &error.to_string())),
                None => self.silent(node, &beadlock_base::error::system_words(error)),
            },
            error => self.silent(node, &escaped(&error.to_string())),
        }
    }

    /// # Errors
    /// [`CallFailure::Silent`] also when the answer cannot be understood: nothing is known then.
    pub(crate) fn txn_at(&self, node: Node, txn: &Txn) -> Result<TxnAnswer, CallFailure> {
        let bytes = self.call_at(node, "/v3/kv/txn", &txn.body())?;
        TxnAnswer::parse(&bytes).map_err(|why| self.silent(node, &escaped(&why)))
    }

    /// A transaction, at the first node that answers.
    pub(crate) fn txn(&self, txn: &Txn) -> Result<TxnAnswer, CallFailure> {
        self.with_any(|node| self.txn_at(node, txn))
    }

    /// The version of a node's etcd.
    pub(crate) fn version_at(&self, node: Node) -> Result<String, CallFailure> {
        let asked = self.agent.get(self.url(node, "/version")).call();
        let mut answer = asked.map_err(|error| self.failure(node, &error))?;
        let bytes = answer.body_mut().with_config().limit(LIMIT).read_to_vec();
        let bytes = bytes.map_err(|error| self.failure(node, &error))?;
        wire::version(&bytes).map_err(|why| self.silent(node, &escaped(&why)))
    }

    /// The token of the log-in says when it ends; `None`: nobody has logged in.
    pub(crate) fn has_web_token(&self) -> Option<bool> {
        self.token()
            .text
            .as_ref()
            .map(|token| wire::token_end(token).is_some())
    }

    /// Grants a lease of T under our own id. One that is there already is ours: a request of ours came twice.
    pub(crate) fn grant(&self, lease: Lease) -> Result<(), CallFailure> {
        let body = json!({"ID": lease.0.to_string(), "TTL": T.as_secs().to_string()});
        match self.call("/v3/lease/grant", &body) {
            Ok(bytes) => match wire::granted(&bytes) {
                Ok(ttl) if ttl >= T.as_secs() as i64 => Ok(()),
                Ok(ttl) => Err(CallFailure::Silent(format!(
                    "a lease of {ttl}s was granted in place of 15s"
                ))),
                Err(why) => Err(CallFailure::Silent(escaped(&why).to_string())),
            },
            Err(CallFailure::Refused(code::EXISTS, _)) => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    /// Sends one keep-alive. False: there is no such lease, or one of another length.
    pub(crate) fn keep_alive_at(&self, node: Node, lease: Lease) -> Result<bool, CallFailure> {
        let bytes = self.call_at(
            node,
            "/v3/lease/keepalive",
            &json!({"ID": lease.0.to_string()}),
        )?;
        let ttl = wire::time_to_live(&bytes).map_err(|why| self.silent(node, &escaped(&why)))?;
        Ok(ttl.is_some_and(|ttl| ttl >= T.as_secs() as i64))
    }

    /// How long a lease lives if it is not renewed; `None`: there is no such lease.
    pub(crate) fn lease_left(&self, lease: Lease) -> Result<Option<LeaseLeft>, CallFailure> {
        let bytes = self.call("/v3/lease/timetolive", &json!({"ID": lease.0.to_string()}))?;
        wire::lease_left(&bytes).map_err(|why| CallFailure::Silent(escaped(&why).to_string()))
    }

    /// Ends a lease, and with it all its keys in one revision. A lease that is not there has ended already.
    pub(crate) fn revoke(&self, lease: Lease) -> Result<(), CallFailure> {
        match self.call("/v3/lease/revoke", &json!({"ID": lease.0.to_string()})) {
            Ok(_) | Err(CallFailure::Refused(code::NOT_FOUND, _)) => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    fn token(&self) -> MutexGuard<'_, Token> {
        self.token.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn token_at(&self, node: Node) -> Result<Option<Arc<str>>, CallFailure> {
        if self.config.login().is_none() {
            return Ok(None);
        }
        let known = self.token().text.clone();
        known.map_or_else(|| self.log_in(node, None), Ok).map(Some)
    }

    /// Logs in, unless another thread has done so since `refused` was taken.
    fn log_in(&self, node: Node, refused: Option<&str>) -> Result<Arc<str>, CallFailure> {
        if let Some(other) = self
            .token()
            .text
            .clone()
            .filter(|text| Some(&**text) != refused)
        {
            return Ok(other);
        }
        let Some(login) = self.config.login() else {
            return Err(CallFailure::Refused(code::NO_LOGIN, String::new()));
        };
        let password = login.password().map_err(CallFailure::Wrong)?;
        let body = json!({"name": login.user, "password": password});
        let answer = self.post(node, "/v3/auth/authenticate", &body, None)?;
        let text = wire::token(&answer).map_err(|why| self.silent(node, &escaped(&why)))?;
        let text: Arc<str> = text.into();
        *self.token() = Token {
            due: due_of(&text),
            text: Some(Arc::clone(&text)),
        };
        Ok(text)
    }

    /// Logs in anew where the token ends soon. Called between renewals.
    pub(crate) fn refresh_login(&self) {
        let due = self.token().due;
        if due.is_none_or(|due| facts::boottime() < due) {
            return;
        }
        let (old, node) = (self.token().text.clone(), self.nodes().next());
        let refreshed = node.is_some_and(|node| self.log_in(node, old.as_deref()).is_ok());
        if !refreshed {
            // Not at once again; a token that is refused is asked for anew anyway.
            self.token().due = Some(facts::boottime() + T);
        }
    }
}

/// Half to nine tenths of what is left of a token, at random; `None`: it does not say when it ends.
fn due_of(token: &str) -> Option<Duration> {
    let now = i64::try_from(
        facts::now()
            .to_system_time()?
            .duration_since(std::time::UNIX_EPOCH)
            .ok()?
            .as_secs(),
    )
    .ok()?;
    let left = u64::try_from(wire::token_end(token)? - now)
        .ok()?
        .min(24 * 3600);
    Some(
        facts::boottime()
            + Duration::from_millis(left * (500 + u64::from(random_byte()) * 400 / 255)),
    )
}

/// A random byte; without a random source there is no jitter.
pub(crate) fn random_byte() -> u8 {
    let mut byte = [0];
    let _ = getrandom::fill(&mut byte);
    byte[0]
}

/// The token is missing (3, by its words), over (16), or older than the last change of users (3, by its words).
fn wants_login(code: i64, why: &str) -> bool {
    code == code::NO_LOGIN
        || (code == code::INVALID
            && (why.contains("user name is empty") || why.contains("auth store is old")))
}

fn certificate_words(node: &str, why: &str) -> String {
    format!(
        "{node} is not trusted: {}; name the file of its CA as ca in fleet.toml",
        escaped(why)
    )
}

/// Trusts the roots of the configuration alone.
fn trusting(config: &Config) -> Result<TlsConfig, Error> {
    let pem = config.roots()?;
    let is_certificate = |item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    };
    let roots: Vec<_> = parse_pem(&pem).filter_map(is_certificate).collect();
    if roots.is_empty() {
        let words = format!(
            "{}: the file of the CA has no certificate in PEM",
            escaped_path(config.source())
        );
        return Err(Error::new(ErrorKind::Config, words));
    }
    let provider = Arc::new(ring::default_provider());
    let tls = TlsConfig::builder().root_certs(RootCerts::Specific(Arc::new(roots)));
    Ok(tls.unversioned_rustls_crypto_provider(provider).build())
}
