//! What `beadlock top` looks at.

use beadlock_testkit::{Ended, Running, Scene, lock_text, run, this_host, until};

/// Three databases: `free`, `claimed` and `failing`, whose agent listens at a socket.
pub fn scene() -> Scene {
    let scene = Scene::new();
    let mut conf = "interval = '200ms'\nlisten = 'unix:agent.sock'\naction = 'none'\n".to_owned();
    for (name, more) in [
        ("free", ""),
        ("claimed", ""),
        ("failing", "exec = 'exit 3'\n"),
    ] {
        scene.database(name);
        conf += &format!("[[database]]\ndir = '{name}/.beads'\n{more}");
    }
    scene.write("agent.toml", conf);
    scene
}

/// Its agent, once each database has had its first cycle.
#[track_caller]
pub fn agent(scene: &Scene) -> Running {
    let agent = Running::start(scene.agent(&["--config", "agent.toml"]));
    let asked = |args: &[&str]| Ended::from(run(scene.beadlock(args)));
    until("the agent has had its cycles", || {
        let ended = asked(&["status", "--agent", "unix:agent.sock", "--json"]);
        ended.code == 0
            && !ended.out.contains("\"starting\":3")
            && ended.out.contains("\"failed\":1")
    });
    agent
}

/// `claimed` is claimed by this process.
pub fn claim(scene: &Scene, holder: &Running) {
    scene.write(
        "claimed/.beads/.exclusive-lock",
        lock_text("nightly-import", holder.pid().into(), &this_host()),
    );
}
