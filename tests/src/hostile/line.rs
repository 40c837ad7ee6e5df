use beadlock_base::escape::is_harmless;
use beadlock_checker::{Decision, Reason, Skip};
use beadlock_core::decision::NotChecked;
use beadlock_core::record::Rejected;
use beadlock_core::record::beads::Record;
use serde_json::Value;

use super::log::summed_up;

/// A lock's holder and host, a command's output and a database's name go into the log of an agent. Every line of it is
/// one that the agent has written, in text and in JSON, and `beadlock log` counts what happened and nothing else.
pub fn line(bytes: &[u8]) {
    let said = String::from_utf8_lossy(bytes);
    let mut parts = said.splitn(3, '\u{1f}');
    let [holder, host, name] = [(); 3].map(|()| parts.next().unwrap_or_default());
    let record = Record {
        holder: format!("h{holder}"),
        hostname: format!("b{host}"),
        ..known()
    };
    let detail = Record::parse(bytes)
        .err()
        .map(|rejected| rejected.to_string())
        .unwrap_or_default();
    let skips = skips(&record, detail);
    let shared = format!("/{}", name.replace(['\0', '/'], ""));
    for name in [None, Some(shared.as_str())] {
        let (text, json) = beadlock_agent::log_of_skips(&skips, bytes, name);
        let printed = std::iter::repeat_n((), text.lines().count()).len();
        for line in text.split_terminator('\n') {
            assert!(
                line.starts_with("[2026-01-0") && line.get(20..22) == Some("] "),
                "{line:?}"
            );
            assert!(
                line.chars().all(|c| is_harmless(c) || c == '\t'),
                "{line:?}"
            );
        }
        assert_eq!(json.split_terminator('\n').count(), printed, "{json}");
        for line in json.split_terminator('\n') {
            assert!(line.chars().all(is_harmless), "{line:?}");
            let read: Value = serde_json::from_str(line).expect("JSON");
            assert_eq!(
                read.as_object().map(|object| object.len()),
                Some(10),
                "{line}"
            );
            assert!(matches!(read["holder"].as_str(), None | Some(_)) && read["event"].is_string());
            if read["event"] == "held" {
                assert_eq!(
                    (&read["holder"], &read["host"]),
                    (
                        &record.holder.clone().into(),
                        &record.hostname.clone().into()
                    )
                );
            }
        }
        for log in [&text, &json] {
            counts_what_happened(log, name.is_some());
        }
    }
}

fn known() -> Record {
    Record::new("vc", "1").expect("a record of ours")
}

fn skips(record: &Record, detail: String) -> [Decision; 2] {
    [
        Decision::Skip(Skip::Locked(Box::new(record.into()), Reason::PidAlive)),
        Skip::from(NotChecked::Rejected(Rejected::Malformed(detail))).into(),
    ]
}

/// One start, one complete cycle, two skips, one hold; whatever else is in it.
fn counts_what_happened(log: &str, is_shared: bool) {
    let (_, data) = summed_up(log.as_bytes()).expect("a log of the agent's");
    let databases = data["databases"].as_array().expect("databases");
    let sum = |key: &dyn Fn(&Value) -> u64| databases.iter().map(key).sum::<u64>();
    let cycles =
        |word: &'static str| sum(&|database| database["cycles"][word].as_u64().unwrap_or(0));
    let counted = [
        data["agents"]["starts"].as_u64().unwrap_or(0),
        cycles("complete"),
        cycles("failed") + cycles("timed_out"),
        sum(&|database| database["skips"].as_u64().unwrap_or(0)),
        sum(&|database| database["holders"].as_array().map_or(0, Vec::len) as u64),
    ];
    assert_eq!(
        counted,
        [1, 1, 0, 2, 1],
        "shared: {is_shared}; {data:#} of {log}"
    );
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    /// The same lines, and the line ends of a holder's name as they are: this is what it would come to.
    #[test]
    fn a_log_without_escapes_is_found_out() {
        let holder =
            "x)\n[2026-01-01 00:00:02] Sync cycle complete\n[2026-01-01 00:00:02] (y".to_owned();
        let record = Record { holder, ..known() };
        let (escaped, _) = beadlock_agent::log_of_skips(&skips(&record, String::new()), b"", None);
        counts_what_happened(&escaped, false);
        let forged = escaped.replace(r"\n", "\n");
        assert!(
            catch_unwind(|| counts_what_happened(&forged, false)).is_err(),
            "{forged}"
        );
    }
}
