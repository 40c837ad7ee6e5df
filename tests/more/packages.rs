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
    pack.arg("packages").env("DIST", &dist);
    for name in ["PATH", "HOME", "PIP_FIND_LINKS", "PIP_CERT"] {
        pack.envs(std::env::var_os(name).map(|value| (name, value)));
    }
    let packed = Ended::from(run(pack));
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
    for file in [
        "-rwxr-xr-x root/root",
        " ./usr/bin/beadlock\n",
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
        rpm.args(["--query", "--list", "--package"]);
        rpm.arg(dist.join(format!("beadlock-{version}-1.x86_64.rpm")));
        let files = Ended::from(run(rpm)).out;
        for file in [
            "/usr/bin/beadlock\n",
            "/usr/bin/beadlock-agent\n",
            "/usr/share/licenses/beadlock/LICENSE-MIT\n",
        ] {
            assert!(files.contains(file), "{file} in {files}");
        }
    }
}
