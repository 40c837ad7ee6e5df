//! What a fleet costs while nobody claims anything, and what a claim costs then. `FLEET_AGENTS` says how many agents.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use beadlock_fleet::{Change, FleetAgent, T};
use beadlock_testkit::{Etcd, until, wait_until};

use super::actors::{claim, heard, until_held};
use super::ground::{Ground, who};

fn agents() -> usize {
    std::env::var("FLEET_AGENTS")
        .ok()
        .and_then(|agents| agents.parse().ok())
        .unwrap_or(10)
}

/// How many proposals a node has committed.
fn proposals(etcd: &Etcd) -> u64 {
    let mut node = TcpStream::connect(etcd.address(0)).expect("a node");
    node.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")
        .expect("a question");
    let mut text = String::new();
    node.read_to_string(&mut text).expect("an answer");
    let line = text
        .lines()
        .find(|line| line.starts_with("etcd_server_proposals_committed_total "));
    let count = line
        .and_then(|line| line.split(' ').nth(1))
        .and_then(|count| count.parse::<f64>().ok());
    count.expect("a count") as u64
}

/// How much is written while each agent renews its lease twice.
fn written_while_idle(etcd: &Etcd, agents: &[FleetAgent]) -> u64 {
    let before = proposals(etcd);
    let renewals = |agent: &FleetAgent| agent.status().deadlines.expect("a session").renewed;
    let first: Vec<Duration> = agents.iter().map(renewals).collect();
    wait_until(2 * T, "each has renewed its lease twice", || {
        agents
            .iter()
            .zip(&first)
            .all(|(agent, first)| renewals(agent) >= *first + T / 2)
    });
    proposals(etcd) - before
}

#[test]
fn idle_agents_write_nothing_and_a_claim_of_an_idle_database_takes_a_moment() {
    let Some(etcd) = Etcd::one() else { return };
    let ground = Ground::on(etcd);
    let agents: Vec<FleetAgent> = (0..agents())
        .map(|number| FleetAgent::start(ground.config(), who(&format!("m{number}"))).unwrap())
        .collect();
    wait_until(Duration::from_secs(120), "all have their right", || {
        agents
            .iter()
            .all(|agent| agent.permit(&ground.mark).is_ok())
    });
    // A request whose answer was late may have been sent twice: then the next round shows it.
    let is_quiet = (0..3).any(|_| written_while_idle(&ground.etcd, &agents) == 0);
    assert!(is_quiet, "a renewal is not a write");
    let mut times = Vec::new();
    for round in 0..9 {
        agents.iter().for_each(|agent| drop(agent.hear()));
        let begun = Instant::now();
        let claim = claim(&format!("c{round}"), ground.config(), &ground.mark);
        let held = until_held(&claim);
        times.push(begun.elapsed());
        assert_eq!(held.agents, agents.len());
        claim.end().unwrap();
        for agent in &agents {
            let due = Change::Due(ground.mark.name.clone());
            until("a cycle is due", || {
                heard(agent.bell(), Duration::from_millis(100)) && agent.hear().contains(&due)
            });
        }
    }
    times.sort();
    println!(
        "{} agents: claim to drained p50 {:?}, most {:?}",
        agents.len(),
        times[times.len() / 2],
        times[times.len() - 1]
    );
    assert!(times[0] < Duration::from_secs(10), "{times:?}");
    agents.iter().for_each(|agent| agent.end().unwrap());
    ground.until_empty();
}
