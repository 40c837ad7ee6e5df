//! The audit trail of named locks: the events of sections 4.3, 5.4, 7.2 and 8 of their document
//! (docs/protocols/tower.md#the-requirements), one JSON object a line, keys in its order. A line that cannot be written
//! is warned of and stops nothing. A claim that is blocked leaves no line.
//!
//! Two events are ours, with the same head and the document's field names: `lock_lost`, and `lock_broken` for section
//! 11.3, which asks for an audit of a forced release.
//!
//! `--audit` names another file for the same lines. The lines of [`crate::audit_trail`] for the other protocols have
//! `event`, `request_id`, `timestamp` and `lock_name` too, so that one reader can read a file with both.

use std::path::{Path, PathBuf};
use std::{io, time::Duration};

use beadlock_core::Removed;
use beadlock_core::audit::{LineFile, WorkOutcome, cut};
use beadlock_core::record::tower::{Record, StartedAt};
use beadlock_core::{facts, record::Record as LockRecord};
use serde_json::{Value, json};

use super::user_name;
use crate::audit_trail::{Breakage, DocumentEvents, errno_words};
use crate::observe::{Notice, Observer};

/// Where the events go unless `--audit` says otherwise: beside the lock directory.
pub fn default_file(lock_dir: &Path) -> PathBuf {
    // Of what has no parent by its name: `.`, `/`.
    let dir = std::path::absolute(lock_dir).unwrap_or_else(|_| lock_dir.to_owned());
    dir.parent().unwrap_or(&dir).join("audit.jsonl")
}

#[derive(Debug)]
pub(crate) struct TowerAudit<'a> {
    lines: Option<LineFile>,
    observer: &'a dyn Observer,
    request_id: String,
    lock_name: String,
    lock_path: PathBuf,
}

impl<'a> TowerAudit<'a> {
    /// Opens `file`. One that cannot be opened is warned of, and nothing is written then.
    pub fn open(
        file: &Path,
        request_id: &str,
        lock_name: &str,
        lock_path: &Path,
        observer: &'a dyn Observer,
    ) -> Self {
        let lines = LineFile::open(file)
            .inspect_err(|failed| observer.notice(&Notice::NotAudited(failed)))
            .ok();
        let (request_id, lock_name) = (request_id.to_owned(), lock_name.to_owned());
        Self {
            lines,
            observer,
            request_id,
            lock_name,
            lock_path: lock_path.to_owned(),
        }
    }

    fn stolen_from(&self, previous: &Record, bytes: &[u8]) {
        let (previous_lock, hash, reason) = (
            previous_lock(previous),
            facts::sha256(bytes),
            "stale_lock_forced",
        );
        let fields =
            json!({ "previous_lock": previous_lock, "previous_lock_hash": hash, "reason": reason });
        self.write("lock_stolen", fields);
    }

    fn path(&self) -> String {
        self.lock_path.to_string_lossy().into_owned()
    }

    /// Adds the line of an event: the head of every line, then its own fields, in the document's order.
    fn write(&self, event: &'static str, fields: Value) {
        let Some(lines) = &self.lines else { return };
        let timestamp = StartedAt::from_unix(facts::now().0.as_secs(), 0);
        let (id, name) = (&self.request_id, &self.lock_name);
        let mut line =
            json!({ "event": event, "request_id": id, "timestamp": timestamp, "lock_name": name });
        if let (Value::Object(line), Value::Object(fields)) = (&mut line, fields) {
            line.extend(fields);
        }
        if let Err(failed) = lines.append(format!("{line}\n"), event, &self.lock_path)
            && failed.is_news()
        {
            self.observer.notice(&Notice::NotAudited(&failed));
        }
    }
}

impl DocumentEvents for TowerAudit<'_> {
    fn acquired(&self, record: &LockRecord) {
        let ttl = record.as_tower().map_or(0, |record| record.ttl_seconds);
        self.write(
            "lock_acquired",
            json!({ "lock_path": self.path(), "ttl_seconds": ttl }),
        );
    }

    fn stolen(&self, removed: &Removed) {
        if let Some(previous) = removed.record.as_tower() {
            self.stolen_from(previous, &removed.bytes);
        }
    }

    fn released(&self, held: Duration, result: WorkOutcome, failure_step: Option<&str>) {
        let mut fields = json!({ "held_duration_seconds": held.as_secs(), "result": result });
        if let Some(step) = failure_step.filter(|_| result == WorkOutcome::Failure) {
            fields["failure_step"] = cut(step).into();
        }
        self.write("lock_released", fields);
    }

    fn release_failed(&self, error: &io::Error) {
        let (path, error, action) = (self.path(), errno_words(error), "manual_cleanup_required");
        self.write(
            "lock_release_failed",
            json!({ "lock_path": path, "error": error, "action": action }),
        );
    }

    /// The document has the event's name and no more.
    fn heartbeat_failed(&self, in_a_row: u32, error: &str) {
        let (path, error) = (self.path(), cut(error));
        let fields = json!({ "lock_path": path, "consecutive_failures": in_a_row, "error": error });
        self.write("heartbeat_failed", fields);
    }

    fn lost(&self, reason: &'static str, held: Option<Duration>, why: &str) {
        let held = held.map(|held| held.as_secs());
        let (path, error) = (self.path(), cut(why));
        let fields = json!({ "lock_path": path, "held_duration_seconds": held, "reason": reason, "error": error });
        self.write("lock_lost", fields);
    }

    /// A file that is not a lock record has no `previous_lock`.
    fn broken(&self, broken: &Breakage<'_>) {
        let previous = broken
            .look
            .record
            .as_ref()
            .and_then(LockRecord::as_tower)
            .map(previous_lock);
        let fields = json!({
            "lock_path": self.path(),
            "actor": user_name(),
            "previous_lock": previous,
            "kept": broken.kept.to_string_lossy(),
            "reason": broken.how,
            "detail": broken.detail().map(|why| cut(&why)),
        });
        self.write("lock_broken", fields);
    }
}

/// The JSON of a lock that was taken away: seven fields of its record (7.2).
fn previous_lock(record: &Record) -> Value {
    json!({
        "request_id": cut(&record.request_id),
        "actor": cut(&record.actor),
        "intent": cut(&record.intent),
        "created_at": record.created_at,
        "last_heartbeat_at": record.last_heartbeat_at,
        "host_id": cut(&record.host_id),
        "pid": record.pid,
    })
}

#[cfg(test)]
mod tests {
    #![expect(
        clippy::disallowed_methods,
        reason = "the tests remove what they have made"
    )]

    use super::*;
    use std::cell::RefCell;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn previous() -> Record {
        let json = r#"{"lock_version":"v1","lock_name":"a-b","request_id":"req_old123","actor":"claude-code",
            "intent":"deploy-app","intent_version":"1.2.0","host_id":"tower-01","pid":12345,
            "created_at":"2025-12-18T10:00:00Z","last_heartbeat_at":"2025-12-18T10:15:00Z","ttl_seconds":900}"#;
        Record::parse(json.as_bytes(), "a-b").unwrap()
    }

    /// An observer that collects the words of each notice about a line that was not written.
    #[derive(Debug, Default)]
    struct NotAudited(RefCell<Vec<String>>);

    impl Observer for NotAudited {
        fn notice(&self, notice: &Notice<'_>) {
            if let Notice::NotAudited(failed) = notice {
                self.0.borrow_mut().push(failed.to_string());
            }
        }
    }

    impl NotAudited {
        fn warnings(&self) -> Vec<String> {
            self.0.borrow().clone()
        }
    }

    fn talk() -> NotAudited {
        NotAudited::default()
    }

    /// The lines, their timestamps (which must be of now) replaced.
    fn lines(file: &Path) -> Vec<String> {
        let text = fs::read_to_string(file).unwrap();
        let without_time = |line: &str| {
            let (before, rest) = line.split_once("\"timestamp\":\"").unwrap();
            let (time, after) = rest.split_once('"').unwrap();
            let age =
                facts::now().0.as_secs() - time.parse::<jiff::Timestamp>().unwrap().as_second();
            assert!(
                (0..60).contains(&age) && time.len() == "2025-12-18T10:30:10Z".len(),
                "{time}"
            );
            format!("{before}\"timestamp\":\"T\"{after}")
        };
        text.lines().map(without_time).collect()
    }

    #[test]
    fn every_event_is_the_documents_in_the_documents_order() {
        let top = tempfile::tempdir().unwrap();
        let (file, talk) = (top.path().join("audit.jsonl"), talk());
        let audit = TowerAudit::open(&file, "req_1", "a-b", Path::new("/locks/a-b.lock"), &talk);
        audit.acquired(&previous().into());
        audit.stolen_from(&previous(), b"abc");
        audit.released(
            Duration::from_millis(900_999),
            WorkOutcome::Success,
            Some("x"),
        );
        audit.released(
            Duration::from_secs(600),
            WorkOutcome::Failure,
            Some("deploy_manifests"),
        );
        audit.released(Duration::ZERO, WorkOutcome::Failure, None);
        audit.release_failed(&nix::errno::Errno::EACCES.into());
        audit.heartbeat_failed(3, "why");
        audit.lost("vanished", Some(Duration::from_millis(2_999)), "why");
        let head = |event: &str| {
            format!(
                r#"{{"event":"{event}","request_id":"req_1","timestamp":"T","lock_name":"a-b","#
            )
        };
        let path = r#""lock_path":"/locks/a-b.lock","#;
        let expected = [
            format!(r#"{}{path}"ttl_seconds":900}}"#, head("lock_acquired")),
            format!(
                r#"{}"previous_lock":{{"request_id":"req_old123","actor":"claude-code","intent":"deploy-app","created_at":"2025-12-18T10:00:00Z","last_heartbeat_at":"2025-12-18T10:15:00Z","host_id":"tower-01","pid":12345}},"previous_lock_hash":"sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad","reason":"stale_lock_forced"}}"#,
                head("lock_stolen")
            ),
            format!(
                r#"{}"held_duration_seconds":900,"result":"success"}}"#,
                head("lock_released")
            ),
            format!(
                r#"{}"held_duration_seconds":600,"result":"failure","failure_step":"deploy_manifests"}}"#,
                head("lock_released")
            ),
            format!(
                r#"{}"held_duration_seconds":0,"result":"failure"}}"#,
                head("lock_released")
            ),
            format!(
                r#"{}{path}"error":"EACCES: permission denied","action":"manual_cleanup_required"}}"#,
                head("lock_release_failed")
            ),
            format!(
                r#"{}{path}"consecutive_failures":3,"error":"why"}}"#,
                head("heartbeat_failed")
            ),
            format!(
                r#"{}{path}"held_duration_seconds":2,"reason":"vanished","error":"why"}}"#,
                head("lock_lost")
            ),
        ];
        assert_eq!(lines(&file), expected);
        assert_eq!(
            fs::metadata(&file).unwrap().permissions().mode() & 0o7777,
            0o600
        );
        assert!(talk.warnings().is_empty());
    }

    #[test]
    fn a_trail_that_cannot_be_written_is_said_and_stops_nothing() {
        let top = tempfile::tempdir().unwrap();
        let (file, target) = (top.path().join("audit.jsonl"), top.path().join("target"));
        fs::write(&target, "").unwrap();
        symlink(&target, &file).unwrap();
        let of_link = talk();
        let audit = TowerAudit::open(&file, "r", "a", Path::new("/l/a.lock"), &of_link);
        audit.acquired(&previous().into());
        assert_eq!(fs::read(&target).unwrap(), b"");
        let [said] = &of_link.warnings()[..] else {
            panic!("{:?}", of_link.warnings())
        };
        assert!(
            said.contains("audit.jsonl cannot be opened: it is a symbolic link"),
            "{said}"
        );

        let file = top.path().join("later");
        let later = talk();
        let audit = TowerAudit::open(&file, "r", "a", Path::new("/l/a.lock"), &later);
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        audit.acquired(&previous().into());
        audit.released(Duration::ZERO, WorkOutcome::Success, None);
        let [said] = &later.warnings()[..] else {
            panic!("once: {:?}", later.warnings())
        };
        assert!(
            said.starts_with("lock_acquired of /l/a.lock is not in the audit file"),
            "{said}"
        );
        assert!(said.ends_with("the work goes on without it"), "{said}");
    }

    #[test]
    fn what_a_hostile_record_says_is_cut_and_stays_one_line() {
        let top = tempfile::tempdir().unwrap();
        let (file, talk) = (top.path().join("audit.jsonl"), talk());
        let hostile = "\n\u{1b}\"".repeat(20_000);
        let audit = TowerAudit::open(&file, "r", "a", Path::new("/l/a.lock"), &talk);
        audit.stolen_from(
            &Record {
                actor: hostile.clone(),
                host_id: hostile.clone(),
                ..previous()
            },
            b"",
        );
        audit.heartbeat_failed(3, &hostile);
        let lines = lines(&file);
        assert_eq!(lines.len(), 2);
        let stolen: Value = serde_json::from_str(&lines[0]).unwrap();
        let actor = stolen["previous_lock"]["actor"].as_str().unwrap();
        assert!(
            actor.starts_with("\n\u{1b}\"")
                && actor.ends_with('…')
                && actor.chars().count() == 1025
        );
    }

    #[test]
    fn it_lies_beside_the_lock_directory() {
        assert_eq!(
            default_file(Path::new("/r/logs/locks")),
            Path::new("/r/logs/audit.jsonl")
        );
        assert_eq!(
            default_file(Path::new("/r/logs/locks/")),
            Path::new("/r/logs/audit.jsonl")
        );
        assert_eq!(default_file(Path::new("/")), Path::new("/audit.jsonl"));
        let cwd = std::env::current_dir().unwrap();
        assert_eq!(default_file(Path::new("locks")), cwd.join("audit.jsonl"));
    }

    #[test]
    fn an_error_without_an_errno_is_its_words() {
        assert_eq!(errno_words(&io::Error::other("busy")), "busy");
    }
}
