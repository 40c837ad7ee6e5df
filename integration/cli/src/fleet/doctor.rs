//! `beadlock doctor --fleet`: what the etcd of the fleet is like, and whether a fleet holds there.

use beadlock_base::escape::{escaped, escaped_path};
use beadlock_claim::error::Problem;
use beadlock_fleet::{Config, ErrorKind, EtcdReport, Fleet, NodeReport, examine};
use serde_json::{Value, json};

use crate::fleet::config::config;
use crate::fleet::error::fleet_error;
use beadlock_claim::environment::Environment;
use beadlock_claim::error::Exit;
use beadlock_console::answers::{conclude, ended, print_answer};
use beadlock_console::program_end::ProgramEnd;
use beadlock_console::{Console, talk::Talk};
use beadlock_oncall::doctor::{GREEN, RED, YELLOW};

/// The result of one check of the fleet.
struct Row {
    /// `None`: it holds, with limits.
    ok: Option<bool>,
    what: String,
    detail: String,
}

/// Looks at all of it.
pub fn run(environment: &Environment, common: &Console) -> ProgramEnd {
    let examined =
        config(environment).and_then(|config| Ok((examine(&config).map_err(fleet_error)?, config)));
    let (report, config) = match examined {
        Ok(examined) => examined,
        Err(error) => return conclude(common, Err((ProgramEnd::Code(error.exit().code()), error))),
    };
    let rows = rows(&report, &config);
    let is_reached = report.nodes.iter().any(|node| node.answers.is_ok());
    let exit = match rows.iter().any(|row| row.ok != Some(true)) {
        _ if !is_reached => Exit::Unreadable,
        true => Exit::Failed,
        false => Exit::Done,
    };
    let is_printed = print_answer(common, json_of(&config, &rows), None, || {
        text(&config, &rows, &common.talk)
    });
    ended(is_printed, exit.code())
}

fn rows(report: &EtcdReport, config: &Config) -> Vec<Row> {
    let mut rows: Vec<Row> = report.nodes.iter().map(of_node).collect();
    rows.extend(report.nodes.iter().filter(|node| node.may_revoke).map(|node| {
        Row {
            ok: None,
            what: format!("leases at {}", node.node),
            detail: "this version may revoke a lease that is being renewed, when the leader stands still (etcd issue \
                 15247); use 3.4.31, 3.5.13 or later"
                .to_owned(),
        }
    }));
    let few = Row {
        ok: None,
        what: "nodes".to_owned(),
        detail: format!(
            "{}: without a majority nobody begins anything; three nodes bear the loss of one",
            config.nodes().len()
        ),
    };
    rows.extend((config.nodes().len() < 3).then_some(few));
    rows.extend(report.has_web_tokens.map(|has_web_tokens| {
        Row {
            ok: if has_web_tokens { Some(true) } else { None },
            what: "log-in".to_owned(),
            detail: match has_web_tokens {
                true => "the server gives web tokens, which are renewed before they end".to_owned(),
                false => {
                    "the server gives simple tokens, and a restart forgets them; start etcd with --auth-token jwt,…"
                        .to_owned()
                }
            },
        }
    }));
    rows.push(of_fleet(config));
    rows
}

fn of_node(node: &NodeReport) -> Row {
    let version = node
        .version
        .as_ref()
        .map(|version| format!("etcd {}", escaped(version)));
    let (ok, detail) = match (&node.answers, version) {
        (Ok(()), Ok(version)) => (true, version),
        (Ok(()), Err(why)) => (true, format!("its version is not known: {}", escaped(why))),
        (Err(why), _) => (false, escaped(why).to_string()),
    };
    Row {
        ok: Some(ok),
        what: format!("node {}", node.node),
        detail,
    }
}

fn of_fleet(config: &Config) -> Row {
    let what = "fleet".to_owned();
    match Fleet::open(config).map_err(|error| (error.kind(), fleet_error(error))) {
        Ok(_) => Row {
            ok: Some(true),
            what,
            detail: format!("there is one at {}", config.url()),
        },
        Err((ErrorKind::Unreachable, _)) => Row {
            ok: Some(false),
            what,
            detail: "not known".to_owned(),
        },
        Err((_, error)) => Row {
            ok: Some(false),
            what,
            detail: error.to_string(),
        },
    }
}

fn text(config: &Config, rows: &[Row], talk: &Talk) -> String {
    let mut text = format!("{} of {}\n", config.url(), escaped_path(config.source()));
    for Row { ok, what, detail } in rows {
        let (word, color) = match ok {
            Some(true) => ("ok", GREEN),
            Some(false) => ("no", RED),
            None => ("limited", YELLOW),
        };
        text.push_str(&format!(
            "  {}  {what:<28}  {detail}\n",
            talk.painted_data(&format!("{word:<7}"), color)
        ));
    }
    text.push_str(
        "Not to be seen from here: etcd should run with --auto-compaction-retention=1h.\n",
    );
    text
}

fn json_of(config: &Config, rows: &[Row]) -> Value {
    let rows: Vec<Value> = rows
        .iter()
        .map(|Row { ok, what, detail }| json!({"what": what, "ok": ok, "detail": detail}))
        .collect();
    json!({"url": config.url(), "config": config.source().to_string_lossy(), "rows": rows})
}
