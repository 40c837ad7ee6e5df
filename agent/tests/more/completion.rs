//! The agent's completion in zsh and fish.

use beadlock_testkit::{Ended, Scene, run, tool};

use crate::fresh_scene;

fn script(scene: &Scene, shell: &str) -> String {
    scene.run(&["--completions", shell]).expect(0, &[]).out
}

#[test]
fn fish_completes_its_options() {
    let Some(fish) = tool("fish") else { return };
    let scene = fresh_scene();
    scene.write("agent.fish", script(&scene, "fish"));
    let mut command = scene.command(fish);
    command.args([
        "--no-config",
        "-c",
        "source agent.fish; complete -C 'beadlock-agent --cycle'",
    ]);
    command.env("HOME", scene.path());
    assert!(
        Ended::from(run(command))
            .expect(0, &[])
            .out
            .starts_with("--cycle-timeout\t")
    );
}

#[test]
fn zsh_reads_its_completion() {
    let Some(zsh) = tool("zsh") else { return };
    let scene = fresh_scene();
    scene.write("_beadlock-agent", script(&scene, "zsh"));
    let mut command = scene.command(zsh);
    command.args(["-f", "-c"]);
    command.arg("autoload -U compinit; compinit -u -D; source ./_beadlock-agent; print -r -- $_comps[beadlock-agent]");
    command.env("HOME", scene.path());
    assert_eq!(
        Ended::from(run(command)).expect(0, &[]).out,
        "_beadlock-agent\n"
    );
}
