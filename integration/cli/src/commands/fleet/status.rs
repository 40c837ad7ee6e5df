//! `beadlock fleet status`: never changes anything. It takes some seconds where a claim has stood for a while: it looks
//! whether its session is renewed.

use beadlock_claim::error::Problem;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use beadlock_base::{duration::shown, escape::escaped};
use beadlock_core::{facts, record::StartedAt};
use beadlock_fleet::{
    Config, Fleet, Lease, MemberValue, Name, Overview, Phase, RENEWAL_WATCH, SeenClaim, SeenMember,
    SeenSession, T,
};
use serde_json::{Value, json};

use super::join::json_of;
use crate::fleet::config::config;
use crate::fleet::error::fleet_error;
use beadlock_base::words::counted;
use beadlock_claim::environment::Environment;
use beadlock_claim::error::Exit;
use beadlock_claim::words::shown_age;
use beadlock_console::answers::{conclude, ended, print_answer};
use beadlock_console::program_end::ProgramEnd;
use beadlock_console::{
    Console,
    table::{fitted, terminal_width},
};

pub fn run(environment: &Environment, common: &Console) -> ProgramEnd {
    match config(environment).and_then(|config| look(&config).map_err(fleet_error)) {
        Ok(Seen {
            fleet,
            overview,
            renewals,
        }) => {
            let text = || fitted(&text(&fleet, &overview, &renewals), terminal_width());
            ended(
                print_answer(common, json(&fleet, &overview, &renewals), None, text),
                Exit::Done.code(),
            )
        }
        Err(error) => conclude(common, Err((ProgramEnd::Code(error.exit().code()), error))),
    }
}

/// Which sessions of claims were renewed while this watched; a claim that is not in it was not watched.
type Renewals = BTreeMap<Lease, bool>;

struct Seen {
    fleet: Fleet,
    overview: Overview,
    renewals: Renewals,
}

fn look(config: &Config) -> Result<Seen, beadlock_fleet::Error> {
    let fleet = Fleet::open(config)?;
    let overview = fleet.overview()?;
    // The session of a dead holder lapses in T, and is here for longer only where something renews it.
    let is_old = |claim: &&SeenClaim| {
        facts::age_of_time(claim.value.started_at, None).is_none_or(|age| age > T)
    };
    let old = overview.claims.values().filter(is_old);
    let renewals = fleet.watch_renewals(old.map(|claim| claim.session));
    let overview = if renewals.is_empty() {
        overview
    } else {
        fleet.overview()?
    };
    Ok(Seen {
        fleet,
        overview,
        renewals,
    })
}

/// The names that anybody knows of.
fn names(overview: &Overview) -> BTreeSet<&Name> {
    let members = overview.members.iter().map(|member| &member.name);
    let rights = overview
        .sessions
        .values()
        .flat_map(|session| &session.rights);
    overview
        .names
        .iter()
        .chain(overview.claims.keys())
        .chain(members)
        .chain(rights)
        .collect()
}

fn agents<'a>(overview: &'a Overview, name: &Name) -> Vec<&'a SeenSession> {
    overview
        .sessions
        .values()
        .filter(|session| session.rights.contains(name))
        .collect()
}

fn members<'a>(overview: &'a Overview, name: &Name) -> Vec<&'a SeenMember> {
    overview
        .members
        .iter()
        .filter(|member| member.name == *name)
        .collect()
}

fn ago(since: StartedAt) -> String {
    match facts::age_of_time(since, None) {
        Some(age) => format!("{} ago", shown_age(age)),
        None => "in the future".to_owned(),
    }
}

fn text(fleet: &Fleet, overview: &Overview, renewals: &Renewals) -> String {
    let mut text = format!("fleet at {}\n", fleet.url());
    if let Some(left) = overview.is_new {
        let _ = writeln!(
            text,
            "  it is new: nobody begins anything for up to {}",
            shown(left)
        );
    }
    let names = names(overview);
    if names.is_empty() {
        text.push_str(
            "  no clone has joined; in each clone of a database: beadlock fleet join NAME\n",
        );
    }
    for name in names {
        let claimed = overview.claims.get(name);
        let _ = writeln!(
            text,
            "{name}: {}",
            claimed.map_or("free".to_owned(), |claim| said_of_claim(
                fleet, overview, claim
            ))
        );
        if let Some(claim) = claimed.filter(|claim| renewals.get(&claim.session) == Some(&false)) {
            let (host, watched) = (escaped(&claim.value.host), shown(RENEWAL_WATCH));
            let _ = writeln!(
                text,
                "  not renewed in the {watched} of this look: its holder may be dead, and etcd keeps the claim when it \
                 changes its leader\n  only where {host} is known to be off: etcdctl lease revoke {}   \
                 # docs/fleet.md#a-dead-holder-keeps-its-claim",
                claim.session
            );
        }
        for session in agents(overview, name) {
            let _ = writeln!(text, "  agent  {}", said_of_session(session));
        }
        for member in members(overview, name) {
            let MemberValue {
                host, path, since, ..
            } = &member.value;
            let nothing = if member.is_seen {
                ""
            } else {
                "; nothing of the fleet runs on that host now"
            };
            let (host, path) = (escaped(host), escaped(path));
            let _ = writeln!(
                text,
                "  clone  {path} on {host}, joined {}{nothing}",
                ago(*since)
            );
        }
    }
    let idle = overview
        .sessions
        .values()
        .filter(|session| session.rights.is_empty());
    let of_claims: BTreeSet<_> = overview
        .claims
        .values()
        .map(|claim| claim.session)
        .collect();
    for session in idle.filter(|session| !of_claims.contains(&session.session)) {
        let _ = writeln!(
            text,
            "session without claim or right: {}",
            said_of_session(session)
        );
    }
    if overview.more {
        text.push_str("there is more: of each kind only the first 5,000 are read\n");
    }
    text
}

fn said_of_claim(fleet: &Fleet, overview: &Overview, claim: &SeenClaim) -> String {
    let value = &claim.value;
    let phase = match value.phase {
        Phase::Held => "claimed by",
        Phase::Draining => "waits for its agents:",
    };
    let token = fleet
        .token(claim)
        .map(|token| format!(", token {token}"))
        .unwrap_or_default();
    let (holder, host, pid) = (escaped(&value.holder), escaped(&value.host), value.pid);
    let broken = overview
        .sessions
        .get(&claim.session)
        .and_then(|session| session.broken.as_ref());
    let broken = broken
        .map(|broken| format!("; {broken}"))
        .unwrap_or_default();
    let (since, session) = (ago(value.started_at), claim.session);
    format!("{phase} {holder} (PID {pid} on {host}), {since}{token}, session {session}{broken}")
}

fn said_of_session(session: &SeenSession) -> String {
    let whose = match &session.value {
        Some(value) => format!(
            "PID {} on {}, {}",
            value.who.pid,
            escaped(&value.who.host),
            ago(value.since)
        ),
        None => "a session that cannot be read".to_owned(),
    };
    let broken = session
        .broken
        .as_ref()
        .map(|broken| format!("; {broken}"))
        .unwrap_or_default();
    let rights = counted(session.rights.len(), "right", "rights");
    format!("{whose}, {rights}, session {}{broken}", session.session)
}

fn json(fleet: &Fleet, overview: &Overview, renewals: &Renewals) -> Value {
    let databases = names(overview).into_iter().map(|name| {
        let agents = agents(overview, name)
            .into_iter()
            .map(|session| session.session.to_string());
        let members = members(overview, name).into_iter().map(json_of);
        json!({
            "name": name,
            "claim": overview.claims.get(name).map(|claim| json_of_claim(fleet, claim, renewals)),
            "agents": agents.collect::<Vec<_>>(),
            "clones": members.collect::<Vec<_>>(),
        })
    });
    let databases: Vec<Value> = databases.collect();
    let sessions: Vec<Value> = overview.sessions.values().map(json_of_session).collect();
    let is_new = overview.is_new.is_some();
    json!({
        "url": fleet.url(), "fleet": fleet.nonce(), "new": is_new, "databases": databases, "sessions": sessions,
        "more": overview.more,
    })
}

/// A claim, for programs.
fn json_of_claim(fleet: &Fleet, claim: &SeenClaim, renewals: &Renewals) -> Value {
    let value = &claim.value;
    json!({
        "id": value.id, "holder": value.holder, "host": value.host, "pid": value.pid, "started_at": value.started_at,
        "phase": value.phase, "token": fleet.token(claim), "session": claim.session.to_string(),
        "renewed": renewals.get(&claim.session),
    })
}

fn json_of_session(session: &SeenSession) -> Value {
    let value = session.value.as_ref();
    json!({
        "session": session.session.to_string(),
        "host": value.map(|value| &value.who.host),
        "pid": value.map(|value| value.who.pid),
        "version": value.map(|value| &value.who.version),
        "since": value.map(|value| value.since),
        "broken": session.broken,
        "rights": session.rights,
    })
}
