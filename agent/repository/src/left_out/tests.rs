use super::*;

/// The names of the files beside the judged one, and whether others may read a record file there.
struct Beside<'a>(&'a [&'a str], bool);

impl Surroundings for Beside<'_> {
    fn has(&self, name: &[u8]) -> bool {
        self.0.iter().any(|beside| beside.as_bytes() == name)
    }

    fn has_shared_records(&self) -> bool {
        self.1
    }
}

/// A file of 20 bytes that others may read.
fn plain(name: &str) -> Option<LeftOutKind> {
    let look = FileLook {
        name: name.as_bytes(),
        mode: Some(0o100_644),
        size: 20,
        beginning: b"{\"id\":\"bd-1\"}\n",
    };
    judge(&look, &Beside(&["issues.jsonl"], true))
}

#[test]
fn a_name_says_what_is_left_out() {
    use LeftOutKind::{Leaving, LiveState, Secret};
    for (kind, names) in [
        (
            LiveState,
            &[
                ".jsonl.lock",
                ".lock",
                "bd.sock.startlock",
                "dolt-server.pid",
                "dolt-monitor.pid.lock",
                "x.sock",
                "x.socket",
                "dolt-server.port",
            ][..],
        ),
        (
            Secret,
            &[
                "x.key",
                "notes.key",
                ".beads-credential-key",
                "design-key",
                "server.pem",
                "SERVER.PEM",
                "x.p12",
                "id_rsa",
                "id_rsa.old",
                "id_ed25519",
                ".env",
                ".env.local",
                ".netrc",
                "credentials",
                "credentials.json",
            ],
        ),
        (
            Leaving,
            &[
                ".#issues.jsonl",
                "#issues.jsonl#",
                "issues.jsonl~",
                ".issues.jsonl.swp",
                ".issues.jsonl.swo",
                ".nfs0000001",
                ".fuse_hidden0001",
                ".DS_Store",
                "Thumbs.db",
                "issues.sync-conflict-20260101-101010-ABCDEFG.jsonl",
                "issues.jsonl.orig",
                "issues.jsonl.rej",
                "issues.jsonl.mine",
                "issues.jsonl.tmp",
                "template.tmp",
                "issues.base.jsonl",
                "issues.left.jsonl",
                "issues.right.jsonl",
                ".merge_file_a1B2c3",
                "issues (Ann's conflicted copy 2026-01-01).jsonl",
                "._issues.jsonl",
            ],
        ),
    ] {
        for name in names {
            assert_eq!(plain(name), Some(kind), "{name}");
        }
    }
}

#[test]
fn a_name_that_is_only_like_one_of_these_is_committed() {
    for name in [
        "issues.jsonl",
        "lock",
        "x.locked",
        "pid",
        "sock.txt",
        "key",
        "keys.txt",
        "monkey",
        "x.keys",
        "pem",
        "rsa_id",
        "my-id_rsa",
        "id_rsa_howto.md",
        ".environment",
        ".env.example",
        ".env.sample",
        ".env.template",
        "x.env",
        "credentials-rotation.md",
        "credentials.jsonl",
        "my-credentials",
        "netrc",
        "team-journal",
        "base.jsonl",
        ".base.jsonl",
        "data.base.jsonl",
        "issues.base.json",
        "#1",
        "a#",
        "swp",
        "issues.swp.jsonl",
        ".x.swap",
        "nfs0000001",
        "original",
        "tmp",
        "x.tmpl",
        "merge_file",
        "sync-conflict.md",
    ] {
        assert_eq!(plain(name), None, "{name}");
    }
}

#[test]
fn a_large_lock_is_a_list_of_versions() {
    let of = |name: &str, size: u64| {
        let look = FileLook {
            name: name.as_bytes(),
            mode: Some(0o100_644),
            size,
            beginning: b"# This file",
        };
        judge(&look, &Beside(&[], true))
    };
    for name in ["Cargo.lock", "flake.lock", "uv.lock"] {
        assert_eq!(of(name, 513), None);
        assert_eq!(of(name, 512), Some(LeftOutKind::LiveState));
    }
    assert_eq!(of("x.bin", LARGEST), None);
    assert_eq!(of("x.bin", LARGEST + 1), Some(LeftOutKind::TooLarge));
}

#[test]
fn content_says_what_is_a_database_or_a_key() {
    let of = |name: &str, beginning: &[u8]| {
        let look = FileLook {
            name: name.as_bytes(),
            mode: Some(0o100_644),
            size: beginning.len() as u64,
            beginning,
        };
        judge(&look, &Beside(&[], true))
    };
    assert_eq!(
        of("notes.txt", b"SQLite format 3\0"),
        Some(LeftOutKind::Database)
    );
    assert_eq!(
        of("x", b"\0\0\0\0\0\0\0\0DUCK\x40"),
        Some(LeftOutKind::Database)
    );
    assert_eq!(of("x.db", b""), Some(LeftOutKind::Database));
    assert_eq!(of("x", b""), None);
    assert_eq!(of("x", b"DUCK"), None);
    for key in [
        &b"-----BEGIN OPENSSH PRIVATE KEY-----\nb3"[..],
        b"-----BEGIN PRIVATE KEY-----\r\n",
        b"\xef\xbb\xbf-----BEGIN RSA PRIVATE KEY-----",
        b"-----BEGIN PGP PRIVATE KEY BLOCK-----\n",
        b"PuTTY-User-Key-File-3: ssh-ed25519\n",
        b"AGE-SECRET-KEY-1QQ\n",
    ] {
        assert_eq!(of("howto.md", key), Some(LeftOutKind::Secret), "{key:?}");
    }
    for text in [
        &b"-----BEGIN PUBLIC KEY-----\n"[..],
        b"-----BEGIN CERTIFICATE-----\nPRIVATE KEY\n",
        b" -----BEGIN PRIVATE KEY-----\n",
        b"PRIVATE KEY",
    ] {
        assert_eq!(of("howto.md", text), None, "{text:?}");
    }
}

#[test]
fn permissions_of_the_owner_alone_make_a_secret_where_the_records_are_shared() {
    let of = |name: &str, mode: Option<u32>, is_shared: bool| {
        let look = FileLook {
            name: name.as_bytes(),
            mode,
            size: 4,
            beginning: b"key\n",
        };
        judge(&look, &Beside(&[], is_shared))
    };
    assert_eq!(
        of("token", Some(0o100_600), true),
        Some(LeftOutKind::Secret)
    );
    assert_eq!(
        of("token", Some(0o100_400), true),
        Some(LeftOutKind::Secret)
    );
    assert_eq!(of("token", Some(0o100_640), true), None);
    assert_eq!(of("token", Some(0o100_604), true), None);
    assert_eq!(of("token", Some(0o100_600), false), None, "a umask of 077");
    assert_eq!(of("token", None, true), None, "a link");
    for name in [
        "new.jsonl",
        "x.json",
        "x.md",
        "x.txt",
        "x.yaml",
        "x.yml",
        "x.toml",
        "x.csv",
        ".gitignore",
    ] {
        assert_eq!(of(name, Some(0o100_600), true), None, "{name}");
    }
}

#[test]
fn a_pattern_is_matched_as_a_shell_does() {
    for (pattern, name, is_like) in [
        ("*.key", "x.key", true),
        ("*.key", ".key", true),
        ("*.key", "x.keys", false),
        ("*a*b", "aab", true),
        ("*a*b", "abb", true),
        ("*a*b", "aba", false),
        (".*.sw?", ".x.swp", true),
        (".*.sw?", ".x.sw", false),
        (".*.sw?", ".x.swap", false),
        ("??????.log", "000003.log", true),
        ("#*#", "##", true),
        ("#*#", "#", false),
        ("*", "", true),
        ("?", "", false),
    ] {
        assert_eq!(
            has_name_like(pattern, name.as_bytes()),
            is_like,
            "{pattern} {name}"
        );
    }
}

#[test]
fn all_below_a_directory_that_is_a_database_is_left_out_but_never_the_database_itself() {
    let top = tempfile::tempdir().unwrap();
    let write = |path: &str| {
        let path = top.path().join(".beads").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "x").unwrap();
    };
    for path in [
        "issues.jsonl",
        "embeddeddolt/bd/.dolt/noms/manifest",
        "embeddeddolt/bd/.dolt/config.json",
        "embeddeddolt/config.yaml",
        "other/x/.dolt/noms/manifest",
        "other/x/data",
        "other/readme",
        "other/dolt/x/.dolt/noms/manifest",
        "dolt/readme",
        ".dolt/config.json",
        "noms/manifest",
        "noms/table",
        "level/CURRENT",
        "level/MANIFEST-000001",
        "level/000003.log",
        "lmdb/data.mdb",
        "lmdb/notes",
        "plain/CURRENT",
        "plain/manifest",
        "sync.lock/owner",
        "data.mdb",
        "new.jsonl",
    ] {
        write(path);
    }
    let mut looks = DirLooks {
        top: top.path(),
        prefix: Path::new(".beads"),
        known: HashMap::new(),
    };
    let mut of = |path: &str| {
        let judged = looks.judge(&Path::new(".beads").join(path));
        judged.map(|(path, kind)| (String::from_utf8(path).unwrap(), kind))
    };
    let database = |path: &str| Some((path.to_owned(), LeftOutKind::Database));
    for path in [
        "embeddeddolt/bd/.dolt/noms/manifest",
        "embeddeddolt/bd/.dolt/config.json",
        "embeddeddolt/config.yaml",
    ] {
        let dolt = (".beads/embeddeddolt/".to_owned(), LeftOutKind::Dolt);
        assert_eq!(of(path), Some(dolt));
    }
    for path in ["other/x/.dolt/noms/manifest", "other/x/data"] {
        assert_eq!(of(path), database(".beads/other/x/"));
    }
    assert_eq!(
        of("other/dolt/x/.dolt/noms/manifest"),
        database(".beads/other/dolt/x/")
    );
    assert_eq!(of(".dolt/config.json"), database(".beads/.dolt/"));
    assert_eq!(of("noms/table"), database(".beads/noms/"));
    assert_eq!(of("level/000003.log"), database(".beads/level/"));
    assert_eq!(of("lmdb/notes"), database(".beads/lmdb/"));
    assert_eq!(of("data.mdb"), database(".beads/data.mdb"));
    assert_eq!(
        of("sync.lock/owner"),
        Some((".beads/sync.lock/".to_owned(), LeftOutKind::LiveState))
    );
    for path in [
        "issues.jsonl",
        "new.jsonl",
        "other/readme",
        "dolt/readme",
        "plain/CURRENT",
        "plain/manifest",
        "gone",
    ] {
        assert_eq!(of(path), None, "{path}");
    }
}
