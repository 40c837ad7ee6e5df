use super::*;

mod forked;

#[test]
fn names_who_waits_and_not_who_has_it() {
    let dir = tempfile::tempdir().unwrap();
    let gate = Gate::try_take(dir.path()).unwrap().unwrap();
    assert_eq!(Gate::waiters(dir.path()), []);
    let path = dir.path().to_owned();
    let waiting = std::thread::spawn(move || Gate::take_blocking(&path).is_ok());
    let deadline = Instant::now() + Duration::from_secs(30);
    while Gate::waiters(dir.path()).is_empty() {
        assert!(Instant::now() < deadline, "nobody is seen to wait");
        sleep(Duration::from_millis(2));
    }
    let me = std::process::id().cast_signed();
    assert_eq!(Gate::waiters(dir.path()), [GateHolder::of(me)]);
    drop(gate);
    assert!(waiting.join().unwrap());
}

#[test]
fn excludes_names_its_holder_and_is_shared_by_descriptor() {
    let dir = tempfile::tempdir().unwrap();
    let gate = Gate::try_take(dir.path()).unwrap().unwrap();
    assert!(
        Gate::try_take(dir.path()).unwrap().is_none(),
        "busy, also within one process"
    );
    let me = std::process::id().cast_signed();
    assert_eq!(
        Gate::holders(dir.path())
            .iter()
            .map(|holder| holder.pid)
            .collect::<Vec<_>>(),
        [me]
    );
    let shared = gate.share().unwrap();
    // A panic closes the descriptor without LOCK_UN, as a kill does. The other descriptor keeps the gate shut.
    let killed = std::thread::spawn(move || {
        let _gate = gate;
        std::panic::resume_unwind(Box::new("killed"));
    });
    killed.join().unwrap_err();
    assert!(
        Gate::try_take(dir.path()).unwrap().is_none(),
        "shut for as long as somebody shares it"
    );
    Gate::unlock(&shared);
    assert!(
        Gate::try_take(dir.path()).unwrap().is_some(),
        "an unlock counts for all who share it"
    );
}

#[test]
fn no_directory_is_an_error_and_not_busy() {
    let dir = tempfile::tempdir().unwrap();
    let error = Gate::try_take(&dir.path().join("nowhere")).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    assert!(error.to_string().contains("nowhere"), "{error}");
}
