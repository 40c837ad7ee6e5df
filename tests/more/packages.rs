//! The .deb and the .rpm, packed with the programs that the tests have. `make dist-check` installs and uses those of a release.

use std::fs;
use std::process::Command;

use beadlock_tests::skip::{checkout, lacking};
use beadlock_tests::{Ended, Scene, binaries, run, tool};

#[test]
fn both_packages_have_the_programs_and_what_they_install() {
    let (Some(dpkg), Some(strip)) = (tool("dpkg-deb"), tool("strip")) else {
        return;
    };
    let scene = Scene::new();
    let dist = scene.file("dist");
    fs::create_dir_all(dist.join("programs")).expect("make the directory");
    fs::write(dist.join(".made-by-beadlock"), "").expect("mark it");
    for program in [binaries::beadlock(), binaries::agent()] {
        let to = dist
            .join("programs")
            .join(program.file_name().expect("a name"));
        // What finds errors is most of a program, and takes minutes to pack.
        let mut strip = scene.command(&strip);
        strip.arg("-o").arg(to).arg(program);
        Ended::from(run(strip)).expect(0, &[]);
    }
    let mut pack: Command = scene.command(checkout().join("scripts/dist.sh"));
    pack.arg("packages").env("BEADLOCK_DIST", &dist);
    // Where the toolchain is, where the tools go, and where pip takes packages.
    let is_of_a_tool = |name: &str| {
        let begins = |prefix: &&str| name.starts_with(*prefix);
        ["PATH", "HOME", "CARGO", "RUSTUP", "PIP"]
            .iter()
            .any(begins)
    };
    pack.envs(std::env::vars().filter(|(name, _)| is_of_a_tool(name)));
    // A private umask is the packer's own affair.
    let mut private = scene.command("sh");
    private.args(["-c", "umask 077; exec \"$0\" \"$@\""]);
    private.arg(pack.get_program()).args(pack.get_args());
    private.envs(
        pack.get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    let packed = Ended::from(run(private));
    if packed.code != 0 && packed.err.contains("has no venv") {
        return lacking("python3-venv");
    }
    packed.expect(0, &[]);

    let version = env!("CARGO_PKG_VERSION");
    let deb = dist.join(format!("beadlock_{version}-1_amd64.deb"));
    let listed = |option: &str| {
        let mut dpkg = scene.command(&dpkg);
        dpkg.arg(option).arg(&deb);
        Ended::from(run(dpkg))
    };
    let files = listed("--contents");
    let program = files
        .out
        .lines()
        .find(|line| line.ends_with(" ./usr/bin/beadlock"));
    assert!(program.is_some_and(|line| line.starts_with("-rwxr-xr-x root/root ")));
    for file in [
        " ./usr/bin/beadlock-agent\n",
        " ./usr/lib/systemd/system/beadlock-agent@.service\n",
        " ./usr/share/man/man1/beadlock-hold.1.gz\n",
        " ./usr/share/bash-completion/completions/beadlock\n",
        " ./usr/share/zsh/vendor-completions/_beadlock\n",
        " ./usr/share/doc/beadlock/copyright\n",
    ] {
        assert!(files.out.contains(file), "{file} in {}", files.out);
    }
    let told = listed("--info").out;
    assert!(told.contains(&format!("Version: {version}-1\n")), "{told}");
    assert!(told.contains("Depends: libc6 (>= 2.17)\n"), "{told}");

    if let Some(rpm) = tool("rpm") {
        let mut rpm = scene.command(rpm);
        rpm.args(["--query", "--list", "--verbose", "--package"]);
        rpm.arg(dist.join(format!("beadlock-{version}-1.x86_64.rpm")));
        let files = Ended::from(run(rpm)).expect(0, &[]).out;
        let folder = files
            .lines()
            .find(|line| line.ends_with(" /usr/share/licenses/beadlock"));
        assert!(
            folder.is_none_or(|line| line.starts_with("drwxr-xr-x ")),
            "{files}"
        );
        for file in [
            "/usr/bin/beadlock\n",
            "/usr/bin/beadlock-agent\n",
            "/usr/share/licenses/beadlock/LICENSE-MIT\n",
        ] {
            assert!(files.contains(file), "{file} in {files}");
        }
    }
}
