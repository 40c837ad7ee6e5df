//! The JSON envelope: one object for every answer (DESIGN 8).

use std::time::Instant;

use beadlock_checker::facts::random_id;
use serde_json::{Value, json};

use crate::failure::Error;
use crate::words::millis;

/// When the work began and what it is called, for `meta`.
#[derive(Debug, Clone)]
pub struct Request {
    begun: Instant,
    id: String,
}

impl Request {
    /// Begins now, under a random name.
    pub fn begin() -> Self {
        Self { begun: Instant::now(), id: random_id() }
    }

    /// Goes on under the name that another process has begun with.
    pub fn called(id: &str) -> Self {
        Self { begun: Instant::now(), id: id.to_owned() }
    }

    /// Its name.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// `{"ok","data","error","warnings","meta"}` in one line. Without an error `ok` is true, whatever the answer.
    pub fn envelope(&self, data: Value, error: Option<&Error>, warnings: &[String]) -> String {
        let envelope = Envelope {
            ok: error.is_none(),
            data,
            error: error.map(error_object),
            warnings,
            meta: json!({ "duration_ms": millis(self.begun.elapsed()), "request_id": self.id }),
        };
        serde_json::to_string(&envelope).unwrap_or_default()
    }
}

/// The fields in the order of the contract.
#[derive(serde::Serialize)]
struct Envelope<'a> {
    ok: bool,
    data: Value,
    error: Option<Value>,
    warnings: &'a [String],
    meta: Value,
}

fn error_object(error: &Error) -> Value {
    let retry_after = error.retry_after.map(millis);
    let mut object = json!({
        "code": error.code.as_str(),
        "message": error.message,
        "retryable": error.is_retryable(),
        "retry_after_ms": retry_after,
        "detail": error.detail,
    });
    if let Some(lock) = &error.lock {
        object["lock"] = Value::clone(lock);
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Code;
    use std::time::Duration;

    #[test]
    fn has_every_field_of_the_contract() {
        let error =
            Error::new(Code::LockHeld, "held").detailed("lock_file=x").retry_after(Duration::from_secs(2));
        let text = Request::begin().envelope(Value::Null, Some(&error), &["w".to_owned()]);
        assert!(text.starts_with(r#"{"ok":false,"data":null,"error":{"#), "{text}");
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["error"]["code"], "LOCK_HELD");
        assert_eq!(value["error"]["retryable"], true);
        assert_eq!(value["error"]["retry_after_ms"], 2000);
        assert_eq!(value["error"]["detail"], "lock_file=x");
        assert_eq!(value["warnings"], json!(["w"]));
        assert!(value["meta"]["duration_ms"].is_u64());
        assert_eq!(value["meta"]["request_id"].as_str().unwrap().len(), 32);
    }

    #[test]
    fn an_answer_is_ok() {
        let value: Value = serde_json::from_str(&Request::begin().envelope(json!([]), None, &[])).unwrap();
        assert_eq!(
            (&value["ok"], &value["error"], &value["warnings"]),
            (&json!(true), &Value::Null, &json!([]))
        );
    }
}
