use super::*;

fn refusal(path: &str, mend: Mend) -> WayRefusal {
    WayRefusal {
        path: path.into(),
        why: format!("why of {path}"),
        mend,
    }
}

const BY_GROUP: Mend = Mend::Chmod {
    group: true,
    everybody: false,
};
const BY_ALL: Mend = Mend::Chmod {
    group: false,
    everybody: true,
};

#[test]
fn what_only_its_owner_can_mend_comes_first_and_has_no_command() {
    let refusals = [refusal("/a", BY_GROUP), refusal("/b", Mend::RunAsOwner)];
    assert_eq!(
        stop(&refusals).why(),
        "why of /b (and 1 more); run the agent as that user, or give --allow-foreign-owner"
    );
    assert_eq!(
        stop(&refusals[..1]).why(),
        "why of /a; look at what is in there and take that right away, or give --allow-foreign-owner"
    );
}

#[test]
fn one_command_mends_all() {
    if !geteuid().is_root() {
        return;
    }
    for (mends, typed) in [
        (&[BY_GROUP][..], "chmod g-w /0"),
        (&[BY_ALL], "chmod o-w /0"),
        (&[BY_ALL, BY_GROUP], "chmod go-w /0 /1"),
        (&[Mend::Chown], "chown -h root /0"),
        (&[BY_GROUP, Mend::Chown], "chown -h root /1 && chmod g-w /0"),
    ] {
        let refusals = mends.iter().enumerate();
        let refusals = refusals.map(|(at, mend)| refusal(&format!("/{at}"), *mend));
        assert_eq!(command(&refusals.collect::<Vec<_>>()), typed);
    }
}

#[test]
fn a_file_that_leads_elsewhere_is_read_as_git_reads_it() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join(".git");
    for (text, led) in [
        ("gitdir: ../x\n", Some("../x")),
        ("gitdir: /a b\r\n", Some("/a b")),
        ("gitdir: \n", None),
        ("gitdir", None),
    ] {
        fs::write(&file, text).unwrap();
        assert_eq!(leading(&file, "gitdir: "), led.map(PathBuf::from), "{text}");
    }
    assert_eq!(leading(root.path(), ""), None, "a directory");
}
