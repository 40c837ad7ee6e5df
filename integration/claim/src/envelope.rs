//! The JSON envelope: one object for every answer, of our programs (docs/design.md#json) and of tools that embed a
//! lock.

use beadlock_base::stdout::print;
use std::time::{Duration, Instant};
use std::{fmt, io};

use beadlock_core::facts::new_request_id;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::{error::Error, words::millis};

/// The version of beadlock's own JSON: its answers, audit lines, log lines and lock files (docs/json.md).
#[doc(hidden)]
pub const SCHEMA: &str = "beadlock/1";

/// When a piece of work began and what it is called: the `meta` of its [`Envelope`].
#[derive(Debug, Clone)]
pub struct Request {
    begun: Instant,
    id: String,
}

impl Request {
    /// Begins now, under a random id: `req_` and 12 characters of `[a-z0-9]`.
    #[must_use]
    pub fn begin() -> Self {
        Self {
            begun: Instant::now(),
            id: new_request_id(),
        }
    }

    /// Begins now, under an id that somebody else has given.
    #[must_use]
    pub fn called(id: &str) -> Self {
        Self {
            begun: Instant::now(),
            id: id.to_owned(),
        }
    }

    /// The id of the request.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The envelope of an answer of beadlock itself in one line: with [`SCHEMA`] in its `meta`. A tool that embeds a lock
    /// answers in a form of its own, which has another name.
    #[doc(hidden)]
    pub fn envelope(&self, data: Value, error: Option<&Error>, warnings: &[String]) -> String {
        let envelope = match error {
            None => Envelope::ok(self, data),
            Some(error) => Envelope::of(self, error).data(data),
        };
        warnings
            .iter()
            .fold(envelope, |envelope, line| envelope.warning(line))
            .with_in_meta("schema", SCHEMA)
            .to_string()
    }

    fn meta(&self) -> Map<String, Value> {
        fields([
            ("duration_ms", millis(self.begun.elapsed()).into()),
            ("request_id", self.id.as_str().into()),
        ])
    }
}

/// One answer of a program, for programs: `ok`, `data`, `error`, `warnings` and `meta`, in this order, as REQ-F-033
/// has them. `Display` is the object in one line, without a newline; [`Envelope::print`] prints it.
///
/// A tool may have fields of its own, behind those of the contract and never in place of them:
///
/// ```
/// use beadlock::{Envelope, Request};
/// use serde_json::{Value, json};
///
/// let request = Request::called("req_01HZ");
/// let envelope = Envelope::failed(&request, "QUOTA", "no room for another release")
///     .detail("releases=20")
///     .retry_after(std::time::Duration::from_secs(60))
///     .with_in_error("doc_url", "https://example.com/quota")
///     .with("schema", 2)
///     .with("ok", true);
/// let value: Value = serde_json::from_str(&envelope.to_string())?;
/// assert_eq!(value["ok"], false);
/// assert_eq!(value["error"], json!({
///     "code": "QUOTA",
///     "message": "no room for another release",
///     "retryable": true,
///     "retry_after_ms": 60000,
///     "detail": "releases=20",
///     "doc_url": "https://example.com/quota",
/// }));
/// assert_eq!(value["warnings"], json!(["ok is a field of the envelope itself: another value for it was left out"]));
/// assert_eq!(value["schema"], 2);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Serialize)]
#[must_use = "an envelope that nobody prints tells nobody"]
pub struct Envelope {
    ok: bool,
    data: Value,
    error: Option<Map<String, Value>>,
    warnings: Vec<String>,
    meta: Map<String, Value>,
    #[serde(flatten)]
    more: Map<String, Value>,
}

/// The contract's own fields; those in `error` and `meta` are there from the beginning.
const OWN: [&str; 5] = ["ok", "data", "error", "warnings", "meta"];
const OWN_IN_ERROR: [&str; 5] = ["code", "message", "retryable", "retry_after_ms", "detail"];
const OWN_IN_META: [&str; 2] = ["duration_ms", "request_id"];

impl Envelope {
    /// The envelope of an answer: `ok` is true. `meta.duration_ms` is measured now.
    pub fn ok(request: &Request, data: impl Into<Value>) -> Self {
        let (error, warnings, more) = (None, Vec::new(), Map::new());
        Self {
            ok: true,
            data: data.into(),
            error,
            warnings,
            meta: request.meta(),
            more,
        }
    }

    /// A failure of the tool's own: `ok` is false and `data` null. Not retryable, without a `detail`, until told
    /// otherwise.
    pub fn failed(request: &Request, code: impl Into<String>, message: impl Into<String>) -> Self {
        let error = fields([
            ("code", code.into().into()),
            ("message", message.into().into()),
            ("retryable", false.into()),
            ("retry_after_ms", Value::Null),
            ("detail", Value::Null),
        ]);
        Self {
            ok: false,
            error: Some(error),
            ..Self::ok(request, Value::Null)
        }
    }

    /// The envelope of an error of beadlock: its code, message, detail, retry time and lock.
    pub fn of(request: &Request, error: &Error) -> Self {
        let envelope = Self::failed(request, error.code.as_str(), error.message.as_str());
        let envelope = error.detail.iter().fold(envelope, Self::detail);
        let envelope = error
            .retry_after
            .into_iter()
            .fold(envelope, Self::retry_after);
        error.lock.iter().fold(envelope, |envelope, lock| {
            envelope.with_in_error("lock", Value::clone(lock))
        })
    }

    /// Sets `data`: the answer, which an envelope with an error may have as well.
    pub fn data(self, data: impl Into<Value>) -> Self {
        Self {
            data: data.into(),
            ..self
        }
    }

    /// Sets `error.detail`: what happened, for programs and bug reports. Without an error this does nothing.
    pub fn detail(self, detail: impl Into<String>) -> Self {
        self.set_in_error("detail", detail.into().into())
    }

    /// Sets `error.retryable`: the same call may succeed later, nobody can say when. Without an error this does
    /// nothing.
    pub fn retryable(self) -> Self {
        self.set_in_error("retryable", true.into())
    }

    /// Sets `error.retry_after_ms`, in whole milliseconds: do not try again before. Sets [`Envelope::retryable`], too.
    /// Without an error this does nothing.
    pub fn retry_after(self, pause: Duration) -> Self {
        self.retryable()
            .set_in_error("retry_after_ms", millis(pause).into())
    }

    /// Adds a line to `warnings`.
    pub fn warning(mut self, line: impl Into<String>) -> Self {
        self.warnings.push(line.into());
        self
    }

    /// Adds a field of the tool's own beside `ok` and the others. A name of the contract is left out, and a warning
    /// says so.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        if OWN.contains(&name) {
            return self.taken(name);
        }
        self.more.insert(name.to_owned(), value.into());
        self
    }

    /// Adds a field of the tool's own to `error`. A name of the contract is left out, and a warning says so; the same
    /// happens to any field where there is no error.
    pub fn with_in_error(mut self, name: &str, value: impl Into<Value>) -> Self {
        if OWN_IN_ERROR.contains(&name) {
            return self.taken(&format!("error.{name}"));
        }
        let Some(error) = &mut self.error else {
            return self.warning(format!("error.{name} was left out: there is no error"));
        };
        error.insert(name.to_owned(), value.into());
        self
    }

    /// Adds a field of the tool's own to `meta`. A name of the contract is left out, and a warning says so.
    pub fn with_in_meta(mut self, name: &str, value: impl Into<Value>) -> Self {
        if OWN_IN_META.contains(&name) {
            return self.taken(&format!("meta.{name}"));
        }
        self.meta.insert(name.to_owned(), value.into());
        self
    }

    /// Prints the envelope on stdout, in one line and one write. A reader that has gone is not an error.
    ///
    /// # Errors
    /// Any other failure of stdout, such as a full disk.
    pub fn print(&self) -> io::Result<()> {
        print(format!("{self}\n"))
    }

    fn set_in_error(mut self, name: &str, value: Value) -> Self {
        if let Some(error) = &mut self.error {
            error.insert(name.to_owned(), value);
        }
        self
    }

    fn taken(self, name: &str) -> Self {
        self.warning(format!(
            "{name} is a field of the envelope itself: another value for it was left out"
        ))
    }
}

fn fields<const N: usize>(fields: [(&str, Value); N]) -> Map<String, Value> {
    fields
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

impl fmt::Display for Envelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::error::{Code, Problem};

    #[test]
    fn has_every_field_of_the_contract() {
        let error = Error::new(Code::LockHeld, "held")
            .detailed("lock_file=x")
            .retry_after(Duration::from_secs(2));
        let text = Request::begin().envelope(Value::Null, Some(&error), &["w".to_owned()]);
        assert!(
            text.starts_with(r#"{"ok":false,"data":null,"error":{"#),
            "{text}"
        );
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["error"]["code"], "LOCK_HELD");
        assert_eq!(value["error"]["retryable"], true);
        assert_eq!(value["error"]["retry_after_ms"], 2000);
        assert_eq!(value["error"]["detail"], "lock_file=x");
        assert_eq!(value["warnings"], json!(["w"]));
        assert!(value["meta"]["duration_ms"].is_u64());
        assert_eq!(value["meta"]["schema"], SCHEMA);
        let id = value["meta"]["request_id"]
            .as_str()
            .and_then(|id| id.strip_prefix("req_"))
            .unwrap();
        assert!(
            id.len() == 12
                && id
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()),
            "{id}"
        );
    }

    #[test]
    fn an_answer_is_ok() {
        let value: Value =
            serde_json::from_str(&Request::begin().envelope(json!([]), None, &[])).unwrap();
        assert_eq!(
            (&value["ok"], &value["error"], &value["warnings"]),
            (&json!(true), &Value::Null, &json!([]))
        );
    }

    /// The document's example, byte for byte but for the duration, which is measured.
    #[test]
    fn it_is_the_documents_in_the_documents_order() {
        let error = Error::new(
            Code::LockHeld,
            "Resource lock held by PID 9001 (age: 12s) — acquisition timed out after 10s",
        )
        .detailed("lock_file=/tmp/mytool/locks/deploy.lock holder_pid=9001 holder_age_ms=12048")
        .retry_after(Duration::from_secs(3));
        let text = Envelope::of(&Request::called("req_01HZ"), &error).to_string();
        let (before, after) = text.split_once("\"duration_ms\":").unwrap();
        let after = after.trim_start_matches(|c: char| c.is_ascii_digit());
        assert_eq!(
            format!("{before}\"duration_ms\":{after}"),
            "{\"ok\":false,\"data\":null,\"error\":{\"code\":\"LOCK_HELD\",\"message\":\"Resource lock held by \
             PID 9001 (age: 12s) — acquisition timed out after 10s\",\"retryable\":true,\"retry_after_ms\":3000,\
             \"detail\":\"lock_file=/tmp/mytool/locks/deploy.lock holder_pid=9001 holder_age_ms=12048\"},\
             \"warnings\":[],\"meta\":{\"duration_ms\":,\"request_id\":\"req_01HZ\"}}"
        );
    }

    fn keys(value: &Value) -> Vec<&str> {
        value
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect()
    }

    #[test]
    fn a_tools_own_fields_come_behind_the_contracts() {
        let envelope = Envelope::failed(&Request::begin(), "QUOTA", "full")
            .with("schema", 2)
            .with_in_error("doc_url", "https://example.com")
            .with_in_meta("host", "vm")
            .with("schema", 3);
        let value: Value = serde_json::from_str(&envelope.to_string()).unwrap();
        assert_eq!(keys(&value), [&OWN[..], &["schema"]].concat());
        assert_eq!(
            keys(&value["error"]),
            [&OWN_IN_ERROR[..], &["doc_url"]].concat()
        );
        assert_eq!(keys(&value["meta"]), [&OWN_IN_META[..], &["host"]].concat());
        assert_eq!(
            (&value["schema"], &value["warnings"]),
            (&json!(3), &json!([]))
        );
        assert_eq!(
            (&value["error"]["retryable"], &value["error"]["detail"]),
            (&json!(false), &Value::Null)
        );
    }

    #[test]
    fn a_tools_own_fields_never_replace_the_contracts() {
        let bare = Envelope::failed(&Request::begin(), "QUOTA", "full").retryable();
        let mut envelope = bare.clone();
        for name in OWN {
            envelope = envelope.with(name, "replaced");
        }
        for name in OWN_IN_ERROR {
            envelope = envelope.with_in_error(name, "replaced");
        }
        for name in OWN_IN_META {
            envelope = envelope.with_in_meta(name, "replaced");
        }
        assert_eq!(
            envelope.warnings.len(),
            OWN.len() + OWN_IN_ERROR.len() + OWN_IN_META.len()
        );
        assert!(
            envelope
                .warnings
                .iter()
                .any(|line| line.starts_with("error.code is a field"))
        );
        envelope.warnings.clear();
        assert_eq!(envelope.to_string(), bare.to_string());
    }

    #[test]
    fn an_answer_has_no_error_to_put_something_in() {
        let envelope = Envelope::ok(&Request::begin(), 1)
            .detail("x")
            .retry_after(Duration::from_secs(1))
            .with_in_error("doc_url", "x");
        let value: Value = serde_json::from_str(&envelope.to_string()).unwrap();
        assert_eq!(
            (&value["ok"], &value["error"], &value["data"]),
            (&json!(true), &Value::Null, &json!(1))
        );
        assert_eq!(
            value["warnings"],
            json!(["error.doc_url was left out: there is no error"])
        );
    }
}
