//! Users, passwords, tokens and certificates.

use std::process::Command;
use std::time::Duration;

use beadlock_fleet::{ClaimState, Config, ErrorKind, Fleet, FleetAgent, SessionStanding, T};
use beadlock_testkit::{Etcd, PATIENCE, tool, until, wait_until};

use super::actors::{Agent, claim, until_held, until_state};
use super::ground::{Ground, PREFIX, config_at, config_in, secret, who};

const CYCLE: Duration = Duration::from_millis(20);

/// A fleet whose etcd asks for passwords, and the configuration that knows one.
fn guarded(options: &[&str]) -> Option<(Ground, Config)> {
    let etcd = Etcd::of(1, options)?;
    let config = as_user(&etcd, "s3cret");
    etcd.require_passwords("bot", "s3cret", &format!("/{PREFIX}/"));
    let ground = Ground::with(etcd, &config);
    Some((ground, config))
}

fn as_user(etcd: &Etcd, password: &str) -> Config {
    let password = secret(
        etcd.dir(),
        &format!("pw-{password}"),
        &format!("{password}\n"),
    );
    let more = format!(
        "user = \"bot\"\npassword-file = \"{}\"\n",
        password.display()
    );
    config_in(&etcd.dir().join("with-user.toml"), &etcd.url(PREFIX), &more)
}

/// Waits until the claim has failed, and answers how.
fn failure(config: Config, ground: &Ground) -> (ErrorKind, String) {
    let claim = claim("m2", config, &ground.mark);
    let state = until_state(&claim, "it fails", T, |state| {
        matches!(state, ClaimState::Failed(_))
    });
    let ClaimState::Failed(error) = state else {
        unreachable!()
    };
    (error.kind(), error.to_string())
}

#[test]
fn a_password_is_asked_for_and_a_wrong_one_is_refused_with_where_to_look() {
    let Some((ground, config)) = guarded(&[]) else {
        return;
    };
    let agent = Agent::start("m1", config.clone(), &ground.mark, &ground.witness, CYCLE);
    agent.until_next();
    let held = claim("m2", config, &ground.mark);
    until_held(&held);
    held.end().unwrap();
    let (kind, words) = failure(as_user(&ground.etcd, "wrong"), &ground);
    assert_eq!(kind, ErrorKind::Refused, "{words}");
    assert!(
        words.contains("password-file") && words.contains("with-user.toml"),
        "{words}"
    );
    let (kind, words) = failure(ground.config(), &ground);
    assert_eq!(kind, ErrorKind::Refused, "{words}");
    assert!(words.contains("add user = "), "{words}");
    agent.until_next();
}

#[test]
fn another_prefix_than_the_users_is_refused() {
    let Some((ground, config)) = guarded(&[]) else {
        return;
    };
    let text = std::fs::read_to_string(config.source()).unwrap_or_default();
    assert_eq!(text, "", "the configuration was never a file");
    let password = ground.etcd.dir().join("pw-s3cret");
    let more = format!(
        "user = \"bot\"\npassword-file = \"{}\"\n",
        password.display()
    );
    let other = config_in(
        &ground.etcd.dir().join("fleet.toml"),
        &ground.etcd.url("other"),
        &more,
    );
    // On a busy machine etcd may take longer to check the password than it has for an answer.
    let mut told = String::new();
    wait_until(PATIENCE, "it is refused", || {
        let error = Fleet::open(&other).unwrap_err();
        told = error.to_string();
        assert!(
            matches!(error.kind(), ErrorKind::Refused | ErrorKind::Unreachable),
            "{told}"
        );
        error.kind() == ErrorKind::Refused
    });
    assert!(told.contains("permission denied"), "{told}");
}

/// Simple tokens are gone when the server has been started again.
#[test]
fn a_token_that_the_server_has_forgotten_is_asked_for_anew() {
    let Some((mut ground, config)) = guarded(&[]) else {
        return;
    };
    let held = claim("m2", config, &ground.mark);
    until_held(&held);
    ground.etcd.kill(0);
    // Without a password nobody may ask whether it is ready.
    ground.etcd.start_without_looking(0);
    let renewed = held.deadlines().expect("a session").renewed;
    wait_until(2 * T, "it is renewed", || {
        held.deadlines()
            .is_some_and(|deadlines| deadlines.renewed > renewed)
    });
    assert_eq!(held.standing(), SessionStanding::Live);
    held.end().unwrap();
}

#[test]
fn web_tokens_are_renewed_and_one_that_is_over_ends_no_session() {
    let Some(openssl) = tool("openssl") else {
        return;
    };
    let keys = tempfile::tempdir().unwrap();
    let (private, public) = (keys.path().join("jwt.key"), keys.path().join("jwt.pub"));
    let openssl = |words: &[&str]| {
        let made = Command::new(&openssl)
            .args(words)
            .stderr(std::process::Stdio::null())
            .status();
        assert!(made.unwrap().success(), "openssl {words:?}");
    };
    openssl(&["genrsa", "-out", private.to_str().unwrap(), "2048"]);
    openssl(&[
        "rsa",
        "-in",
        private.to_str().unwrap(),
        "-pubout",
        "-out",
        public.to_str().unwrap(),
    ]);
    let (public, private) = (public.display(), private.display());
    let jwt = format!("jwt,pub-key={public},priv-key={private},sign-method=RS256,ttl=4s");
    let Some((ground, config)) = guarded(&["--auth-token", &jwt]) else {
        return;
    };
    let agent = Agent::start("m1", config.clone(), &ground.mark, &ground.witness, CYCLE);
    agent.until_next();
    let held = claim("m2", config.clone(), &ground.mark);
    until_held(&held);
    let renewed = held.deadlines().expect("a session").renewed;
    wait_until(3 * T, "it is renewed for longer than a token lives", || {
        assert_eq!(held.standing(), SessionStanding::Live);
        held.deadlines()
            .is_some_and(|deadlines| deadlines.renewed > renewed + T)
    });
    held.end().unwrap();
    agent.until_next();
    assert_eq!(
        beadlock_fleet::examine(&config).unwrap().has_web_tokens,
        Some(true)
    );
}

#[test]
fn a_role_that_is_revoked_ends_the_session_by_its_deadline_and_all_goes_on_when_it_is_back() {
    let Some((ground, config)) = guarded(&[]) else {
        return;
    };
    let agent = FleetAgent::start(config.clone(), who("m1")).unwrap();
    until("a permit", || agent.permit(&ground.mark).is_ok());
    let held = claim("m2", config, &ground.mark);
    until_held(&held);
    let root = ["--user", "root:rootpw"];
    ground
        .etcd
        .ctl(&[&root[..], &["user", "revoke-role", "bot", "beads"]].concat());
    wait_until(2 * T, "the claim is over", || {
        matches!(held.standing(), SessionStanding::Over(_))
    });
    let SessionStanding::Over(loss) = held.standing() else {
        unreachable!()
    };
    assert!(loss.to_string().contains("permission denied"), "{loss}");
    assert!(!held.may_begin());
    until("no permit", || agent.permit(&ground.mark).is_err());
    ground
        .etcd
        .ctl(&[&root[..], &["user", "grant-role", "bot", "beads"]].concat());
    drop(held);
    wait_until(2 * T, "a permit again", || {
        agent.permit(&ground.mark).is_ok()
    });
    agent.end().unwrap();
}

#[test]
fn tls_trusts_the_ca_of_the_configuration_and_no_other() {
    let Some(etcd) = Etcd::with_tls() else { return };
    let ca = etcd.tls().expect("it has a CA").ca.clone();
    let trusting = |ca: &std::path::Path| {
        config_in(
            &etcd.dir().join("fleet.toml"),
            &etcd.url(PREFIX),
            &format!("ca = \"{}\"\n", ca.display()),
        )
    };
    let config = trusting(&ca);
    let other = tempfile::tempdir().unwrap();
    let other = beadlock_testkit::etcd::certificates(other.path(), "127.0.0.1").ca;
    // The file is gone, and with it what it said: read it once.
    let untrusted = Fleet::open(&trusting(&other)).map(drop).unwrap_err();
    assert!(
        matches!(untrusted.kind(), ErrorKind::Io | ErrorKind::Refused),
        "{untrusted}"
    );
    let system = Fleet::open(&config_at(&etcd.url(PREFIX))).unwrap_err();
    assert_eq!(system.kind(), ErrorKind::Refused, "{system}");
    assert!(
        system.to_string().contains("is not trusted")
            && system.to_string().contains("ca in fleet.toml"),
        "{system}"
    );
    let plain =
        Fleet::open(&config_at(&etcd.url(PREFIX).replace("etcds://", "etcd://"))).unwrap_err();
    assert_eq!(plain.kind(), ErrorKind::Unreachable, "{plain}");
    let ground = Ground::with(etcd, &config);
    let agent = Agent::start("m1", config.clone(), &ground.mark, &ground.witness, CYCLE);
    agent.until_next();
    let held = claim("m2", config, &ground.mark);
    until_held(&held);
    held.end().unwrap();
    agent.until_next();
    ground.witness.check();
}
