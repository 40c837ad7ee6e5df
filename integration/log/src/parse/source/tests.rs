//! Which files are a log, and its lines whatever is in them.

use std::fs;

use super::*;

fn names(source: &LogSource) -> Vec<String> {
    source
        .files()
        .iter()
        .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
        .collect()
}

fn read(source: LogSource) -> Vec<String> {
    let mut lines = Vec::new();
    source
        .read(|heard| {
            if let LogBytes::Line { bytes, .. } = heard {
                lines.push(String::from_utf8_lossy(bytes).into_owned());
            }
        })
        .unwrap();
    lines
}

fn scene(names: &[&str]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for name in names {
        fs::write(dir.path().join(name), format!("{name}\n")).unwrap();
    }
    dir
}

#[test]
fn a_log_comes_with_its_older_files_oldest_first() {
    let dir = scene(&[
        "daemon.log",
        "daemon.log.1",
        "daemon.log.2",
        "daemon.log.10",
        "daemon.log.x",
        "daemon.log2",
        "daemon.log.3.gz",
        "daemon-2026-02-01T10-11-12.000.log",
        "daemon-2026-02-02T10-11-12.000.log",
        "daemon-2026-01-01T10-11-12.000.log.gz",
        "daemon-x.log",
        "xdaemon.log.1",
    ]);
    let source = LogSource::with_older(&dir.path().join("daemon.log")).unwrap();
    let order = [
        "daemon-2026-02-01T10-11-12.000.log",
        "daemon-2026-02-02T10-11-12.000.log",
        "daemon.log.10",
        "daemon.log.2",
        "daemon.log.1",
        "daemon.log",
    ];
    assert_eq!(names(&source), order);
    assert_eq!(source.compressed.len(), 2);
    assert_eq!(read(source), order);
}

#[test]
fn one_family_is_one_log_and_an_older_file_alone_is_alone() {
    let dir = scene(&["daemon.log", "daemon.log.1", "daemon.log.2", "b.log"]);
    let typed = |names: &[&str]| {
        let names: Vec<OsString> = names
            .iter()
            .map(|name| dir.path().join(name).into_os_string())
            .collect();
        LogSource::named(&names)
            .into_iter()
            .map(|source| self::names(&source.unwrap()))
            .collect::<Vec<_>>()
    };
    assert_eq!(typed(&["daemon.log.1"]), [["daemon.log.1"]]);
    assert_eq!(
        typed(&["daemon.log.1", "daemon.log.2"]),
        [["daemon.log.2", "daemon.log.1"]]
    );
    let all = vec!["daemon.log.2", "daemon.log.1", "daemon.log"];
    assert_eq!(
        typed(&["daemon.log", "daemon.log.1", "daemon.log.2"]),
        [&all[..]]
    );
    assert_eq!(
        typed(&["daemon.log", "b.log", "daemon.log"]),
        [all, vec!["b.log"]]
    );
}

#[test]
fn a_log_between_two_files_is_what_is_left_of_it() {
    let dir = scene(&["daemon.log.1"]);
    let source = LogSource::with_older(&dir.path().join("daemon.log")).unwrap();
    assert_eq!(names(&source), ["daemon.log.1"]);
    let error = LogSource::with_older(&dir.path().join("other.log")).unwrap_err();
    assert!(error.to_string().starts_with("there is no "), "{error}");
}

#[test]
fn lines_are_lines_whatever_is_in_them() {
    let heard = |input: &[u8]| {
        let mut all = Vec::new();
        lines(input, None, &mut |heard| {
            if let LogBytes::Line { bytes, is_cut } = heard {
                all.push((bytes.len(), is_cut));
            }
        })
        .unwrap();
        all
    };
    assert_eq!(heard(b""), []);
    assert_eq!(heard(b"a\n\nb"), [(1, false), (0, false), (1, false)]);
    let long = [&b"x".repeat(LONGEST_LINE * 9)[..], b"\nshort\n"].concat();
    assert_eq!(heard(&long), [(LONGEST_LINE, true), (5, false)]);
    let exact = [&b"x".repeat(LONGEST_LINE)[..], b"\nshort\n"].concat();
    assert_eq!(heard(&exact), [(LONGEST_LINE, false), (5, false)]);
    let zeros = [&b"\0".repeat(LONGEST_LINE * 3 + 7)[..], b"[x\n"].concat();
    assert_eq!(heard(&zeros), [(9, false)]);
}

#[test]
fn what_is_compressed_is_said_with_what_to_type() {
    for (head, tool) in [
        (&b"\x1f\x8b\x08"[..], "zcat"),
        (b"\x28\xb5\x2f\xfd", "zstdcat"),
        (b"BZh9", "bzcat"),
    ] {
        let error = lines(head, Some(Path::new("FILE")), &mut |_| ())
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            format!("it is compressed; type: {tool} FILE | beadlock log -")
        );
    }
}
