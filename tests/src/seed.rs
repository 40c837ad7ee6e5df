//! The shell of the protocols' own documents, cut out of them at run time so that it runs word for word.

use std::fs;
use std::path::Path;

use serde_json::Value;

/// The recipe in its two halves; what goes between them is the work.
pub struct Recipe {
    /// From the shebang to the end of the here-document: writes the lock, with the shell's own PID.
    pub create: String,
    /// Removes it.
    pub release: String,
}

impl Recipe {
    /// The recipe of the document beside the checkout; None, and said so, where that is absent.
    ///
    /// # Panics
    ///
    /// When the document is there and has no such recipe.
    #[track_caller]
    pub fn of_the_seed() -> Option<Self> {
        Some(Self::in_the(&crate::shared()?))
    }

    #[track_caller]
    fn in_the(shared: &Path) -> Self {
        let document = shared.join("seeds/beads-exclusive-lock.md");
        let text =
            fs::read_to_string(&document).unwrap_or_else(|e| panic!("{}: {e}", document.display()));
        let block = text
            .split("```bash\n")
            .nth(1)
            .and_then(|rest| rest.split("```").next());
        let block = block.expect("the document has a bash block");
        let end = block
            .find("\nEOF\n")
            .expect("the recipe has a here-document")
            + "\nEOF\n".len();
        let release = block[end..]
            .lines()
            .find(|line| line.starts_with("rm "))
            .expect("the recipe removes its lock");
        Self {
            create: block[..end].to_owned(),
            release: format!("{release}\n"),
        }
    }

    /// The document's recipe, else one of ours that does the same: for what must run in every checkout.
    ///
    /// # Panics
    ///
    /// When the document is there and has no such recipe.
    #[track_caller]
    pub fn any() -> Self {
        let ours = || Self {
            create: OURS.to_owned(),
            release: "rm .beads/.exclusive-lock\n".to_owned(),
        };
        crate::skip::find_shared().map_or_else(ours, |shared| Self::in_the(&shared))
    }

    /// A script that claims, does the work, and releases.
    pub fn around(&self, work: &str) -> String {
        format!("{}{work}\n{}", self.create, self.release)
    }
}

/// The scripts of the tower-fleet document: bash, which needs `jq`.
pub struct LockManager {
    /// Its section 10.2, from the shebang to the last line: what an executor sources. For another lock directory.
    script: String,
    /// Its section 5.3: the function `update_heartbeat PATH`.
    heartbeat: String,
}

impl LockManager {
    /// Those of the document beside the checkout, pointed at `dir`; None, and said so, where that is absent.
    ///
    /// # Panics
    ///
    /// When the document is there and has no such scripts.
    #[track_caller]
    pub fn of_the_seed(dir: &Path) -> Option<Self> {
        let document = crate::shared()?.join("seeds/tower-fleet-lock-v1.md");
        let text =
            fs::read_to_string(&document).unwrap_or_else(|e| panic!("{}: {e}", document.display()));
        let cut = |from: &str, to: &str| {
            let begin = text
                .find(from)
                .unwrap_or_else(|| panic!("the document has a line {from:?}"));
            let end = text[begin..]
                .find(to)
                .unwrap_or_else(|| panic!("and behind it {to:?}"));
            text[begin..begin + end + to.len()].to_owned()
        };
        let script = cut(
            "#!/bin/bash\n",
            "\nexport -f acquire_lock release_lock is_lock_stale\n",
        );
        let setting = script
            .lines()
            .find(|line| line.starts_with("LOCK_DIR="))
            .expect("it has a directory");
        let script = script.replace(setting, &format!("LOCK_DIR='{}'", dir.display()));
        Some(Self {
            script,
            heartbeat: cut("update_heartbeat() {\n", "\n}\n"),
        })
    }

    /// A script that has all of it, and then does this.
    pub fn before(&self, work: &str) -> String {
        format!("{}\n{}\n{work}\n", self.script, self.heartbeat)
    }
}

/// The Python lock manager of the clawdbot document.
pub struct MemoryManager {
    /// A module, whole.
    pub module: String,
}

impl MemoryManager {
    /// That of the document beside the checkout; None, and said so, where that is absent.
    ///
    /// # Panics
    ///
    /// When the document is there and has no such module.
    #[track_caller]
    pub fn of_the_seed() -> Option<Self> {
        let document = crate::shared()?.join("seeds/clawdbot-memory-lock.md");
        let text =
            fs::read_to_string(&document).unwrap_or_else(|e| panic!("{}: {e}", document.display()));
        let block = text
            .split("```python\n#!")
            .nth(1)
            .and_then(|rest| rest.split("\n```").next());
        let block = block.expect("the document has a Python module");
        assert!(
            block.contains("class MemoryLock:"),
            "and it is the lock manager"
        );
        Some(Self {
            module: format!("#!{block}\n"),
        })
    }
}

/// The answer to a wait that ran out (REQ-F-033): the document's own example, or one of ours.
pub struct LockHeld {
    /// The whole answer.
    pub envelope: Value,
}

impl LockHeld {
    /// What is [`alike`](Self::alike) in all of them.
    pub const ALIKE: &str = concat!(
        r#"{"ok":false,"data":null,"error":{"code":"LOCK_HELD","#,
        r#""message":"Resource lock held by PID PID (age: AGE) — acquisition timed out after 10s","#,
        r#""retryable":true,"retry_after_ms":"MILLISECONDS","#,
        r#""detail":"lock_file=PATH holder_pid=PID holder_age_ms=AGE"},"#,
        r#""warnings":[],"meta":{"duration_ms":"MILLISECONDS","request_id":"ID"}}"#,
    );

    /// The wire format of the document beside the checkout; None, and said so, where that is absent.
    ///
    /// # Panics
    ///
    /// When the document is there and has no such example.
    #[track_caller]
    pub fn of_the_seed() -> Option<Self> {
        let document = crate::shared()?.join("seeds/req-f-033-lock-timeout.md");
        let text =
            fs::read_to_string(&document).unwrap_or_else(|e| panic!("{}: {e}", document.display()));
        let block = text
            .split("Lock contention error response:\n")
            .nth(1)
            .expect("it has a wire format");
        let end = block.find("\n}\n").expect("which ends") + 2;
        Some(Self::parse(&block[..end]))
    }

    /// What a program has printed.
    ///
    /// # Panics
    ///
    /// When that is not such an answer.
    #[track_caller]
    pub fn parse(text: &str) -> Self {
        let envelope =
            serde_json::from_str(text).unwrap_or_else(|e| panic!("no envelope ({e}): {text:?}"));
        Self { envelope }
    }

    /// The PID in its `detail`; -1 where there is none.
    pub fn holder(&self) -> i64 {
        self.detail("holder_pid=").parse().unwrap_or(-1)
    }

    /// The age in its `detail`, in milliseconds; -1 where there is none.
    pub fn age_ms(&self) -> i64 {
        self.detail("holder_age_ms=").parse().unwrap_or(-1)
    }

    fn detail(&self, field: &str) -> &str {
        let detail = self.envelope["error"]["detail"]
            .as_str()
            .unwrap_or_default();
        let (_, rest) = detail.split_once(field).unwrap_or_default();
        rest.split(' ').next().unwrap_or_default()
    }

    /// The answer as text with one word for whatever differs from run to run: PID, age, path, durations, request id.
    /// What has another type, form or place than the document says stays as it is, and so differs.
    pub fn alike(&self) -> String {
        let mut envelope = self.envelope.clone();
        // What the command adds: readers of the document leave it alone.
        if envelope["meta"]["schema"] == "beadlock/1"
            && let Some(meta) = envelope["meta"].as_object_mut()
        {
            meta.remove("schema");
        }
        for (place, field) in [("error", "retry_after_ms"), ("meta", "duration_ms")] {
            if envelope[place][field].is_u64() {
                envelope[place][field] = "MILLISECONDS".into();
            }
        }
        if envelope["meta"]["request_id"]
            .as_str()
            .is_some_and(|id| !id.is_empty())
        {
            envelope["meta"]["request_id"] = "ID".into();
        }
        let (pid, age) = (self.holder(), self.age_ms());
        if let Some(message) = envelope["error"]["message"].as_str() {
            let said = format!("PID {pid} (age: {}s)", age / 1000);
            envelope["error"]["message"] = message.replace(&said, "PID PID (age: AGE)").into();
        }
        if let Some(detail) = envelope["error"]["detail"].as_str() {
            let path = self.detail("lock_file=");
            let said = format!("lock_file={path} holder_pid={pid} holder_age_ms={age}");
            let path = if path.starts_with('/') { "PATH" } else { path };
            let plain = format!("lock_file={path} holder_pid=PID holder_age_ms=AGE");
            envelope["error"]["detail"] = detail.replace(&said, &plain).into();
        }
        envelope.to_string()
    }
}

const OURS: &str = r#"cat >.beads/.exclusive-lock <<LOCK
{"holder":"my-tool","pid":$$,"hostname":"$(hostname)","started_at":"$(date -u +%Y-%m-%dT%H:%M:%SZ)"}
LOCK
"#;
