//! The place is compared with what `git push --dry-run --porcelain` does, with each git of this machine.

#![expect(
    clippy::disallowed_methods,
    reason = "the tests change what they have made, and look for the versions of git"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::{NoPlace, PushPlace, UpstreamSetting, find};
use crate::GitSettings;
use crate::settings::ASKED;

/// The settings beside the remote `origin` in each row.
const PLAIN: &str = "[branch \"main\"]\nremote = origin\nmerge = refs/heads/main\n";

/// Settings beside [`PLAIN`]. `D` is the directory of the repositories: `r.git` and `fork.git` have the branch main,
/// and `r.git` has `other` besides; `p.git` is empty.
const BESIDE_PLAIN: &[&str] = &[
    "",
    // Other URLs for a push.
    "[remote \"origin\"]\npushurl = D/p.git",
    "[remote \"origin\"]\npushurl = D/r.git\npushurl = D/p.git",
    "[remote \"origin\"]\npushurl = D/p.git\npushurl = D/r.git",
    "[remote \"origin\"]\npushurl = no_push",
    "[remote \"origin\"]\npushurl = DISABLE\npushurl = D/p.git",
    "[remote \"origin\"]\npushurl = /dev/null",
    "[remote \"origin\"]\nurl = D/p.git",
    "[remote \"origin\"]\nurl = D/p.git\npushurl = D/fork.git",
    "[url \"D/fork\"]\npushInsteadOf = D/r",
    "[url \"D/fork\"]\npushInsteadOf = D/r\n[remote \"origin\"]\npushurl = D/r.git",
    "[url \"D/fork\"]\npushInsteadOf = D/r\n[remote \"origin\"]\nurl = D/p.git",
    "[url \"D/fork\"]\ninsteadOf = D/r",
    "[url \"D/fork\"]\ninsteadOf = D/r\n[remote \"origin\"]\npushurl = D/r.git",
    "[url \"D/fork\"]\ninsteadOf = D/r\n[url \"D/p\"]\npushInsteadOf = D/r",
    "[url \"D/fork\"]\ninsteadOf = D/p\n[url \"D/p\"]\npushInsteadOf = D/r",
    "[url \"/nowhere/\"]\ninsteadOf = D/\n[url \"D/fork.git\"]\ninsteadOf = D/r.git",
    "[url \"D/fork.git\"]\ninsteadOf = D/r.git\n[url \"/nowhere/\"]\ninsteadOf = D/",
    "[url \"D/\"]\ninsteadOf = short:\n[remote \"origin\"]\npushurl = short:p.git",
    "[url \"D/\"]\npushInsteadOf = short:\n[remote \"fork\"]\nurl = short:fork.git\n[remote]\npushDefault = fork",
    "[url \"none\"]\npushInsteadOf = D/",
    "[url \"D/p\"]\npushInsteadOf = D/r\n[url \"D/fork.\"]\npushInsteadOf = D/r.",
    // Other remotes.
    "[remote \"fork\"]\nurl = D/fork.git\nfetch = +refs/heads/*:refs/remotes/fork/*",
    "[remote]\npushDefault = D/fork.git",
    "[remote]\npushDefault = origin",
    "[remote]\npushDefault = none",
    "[remote \"fork\"]\nurl = D/fork.git\n[remote]\npushDefault = fork\n[branch \"main\"]\npushRemote = origin",
    "[remote \"fork\"]\nurl = D/fork.git\n[branch \"main\"]\npushRemote = none",
    "[remote \"fork\"]\npushurl = D/fork.git\n[branch \"main\"]\npushRemote = fork",
    "[remote \"fork\"]\nurl = D/fork.git\npushurl = D/p.git\n[branch \"main\"]\npushRemote = fork",
    "[branch \"main\"]\npushRemote = ../fork.git",
    "[branch \"other\"]\npushRemote = none",
    "[branch \"main\"]\npushRemote = local",
    "[branch \"main\"]\nremote = gone",
    "[branch \"main\"]\nremote = D/fork.git",
    "[push]\ndefault = upstream\n[branch \"main\"]\nremote = D/fork.git",
    "[remote \"a.b\"]\nurl = D/fork.git\n[remote]\npushDefault = a.b",
    // A remote says what is pushed.
    "[remote \"origin\"]\npush = main:inbox",
    "[remote \"origin\"]\npush = refs/heads/main:refs/heads/inbox",
    "[remote \"origin\"]\npush = HEAD:inbox",
    "[remote \"origin\"]\npush = @:inbox",
    "[remote \"origin\"]\npush = HEAD",
    "[remote \"origin\"]\npush = main",
    "[remote \"origin\"]\npush = +main:other",
    "[remote \"origin\"]\npush = refs/heads/*:refs/heads/*",
    "[remote \"origin\"]\npush = refs/heads/*:refs/heads/ann/*",
    "[remote \"origin\"]\npush = refs/heads/ma*:refs/heads/*",
    "[remote \"origin\"]\npush = refs/heads/side:refs/heads/side",
    "[remote \"origin\"]\npush = refs/heads/s*:refs/heads/s*",
    "[remote \"origin\"]\npush = refs/heads/*:refs/heads/*\npush = ^refs/heads/main",
    "[remote \"origin\"]\npush = refs/heads/*:refs/heads/*\npush = ^refs/heads/side",
    "[remote \"origin\"]\npush = :",
    "[remote \"origin\"]\npush = main:inbox\n[push]\ndefault = nothing",
    "[remote \"origin\"]\npush = main:inbox\npushurl = D/p.git",
    "[remote \"fork\"]\nurl = D/fork.git\npush = main:inbox\n[remote]\npushDefault = fork",
    "[remote \"fork\"]\nurl = D/fork.git\npush = main:inbox",
    "[remote \"origin\"]\npush = side:inbox",
    // The branch.
    "[branch \"main\"]\nmerge = refs/heads/other",
    "[push]\ndefault = upstream\n[branch \"main\"]\nmerge = refs/heads/other",
    "[push]\ndefault = matching\n[remote \"origin\"]\npushurl = D/p.git",
    "[push]\nautoSetupRemote",
    "[remote \"origin\"]\nmirror = false",
];

/// Settings as in [`BESIDE_PLAIN`], with which git pushes more than this branch to a branch: that is for a person to
/// do.
const FOR_A_PERSON: &[&str] = &[
    "[remote \"origin\"]\nmirror = true",
    "[remote \"origin\"]\nmirror = on\npushurl = D/p.git",
    "[remote \"origin\"]\npush = HEAD:refs/for/main",
    "[remote \"origin\"]\npush = refs/heads/*:refs/for/*",
    "[remote \"origin\"]\npush = main:inbox\npush = main:backup",
    "[remote \"origin\"]\npush = main:refs/tags/main",
    "[branch \"main\"]\nremote = .",
    "[push]\ndefault = current\n[branch \"main\"]\nremote = .",
    "[branch \"main\"]\npushRemote = .",
];

/// Each setting of a kind, in all combinations.
const COMBINED: [&[&str]; 4] = [
    &[
        "",
        "[push]\ndefault = simple",
        "[push]\ndefault = upstream",
        "[push]\ndefault = tracking",
        "[push]\ndefault = current",
        "[push]\ndefault = nothing",
        "[push]\ndefault = matching",
    ],
    &[
        "",
        "[branch \"main\"]\nremote = origin\nmerge = refs/heads/main",
        "[branch \"main\"]\nremote = origin\nmerge = refs/heads/other",
        "[branch \"main\"]\nremote = fork\nmerge = refs/heads/main",
        "[branch \"main\"]\nremote = origin\nmerge = refs/heads/main\nmerge = refs/heads/other",
        "[branch \"main\"]\nmerge = refs/heads/main",
    ],
    &[
        "",
        "[remote]\npushDefault = fork",
        "[branch \"main\"]\npushRemote = fork",
        "[branch \"main\"]\npushRemote = no_push",
    ],
    &["", "[push]\nautoSetupRemote = true"],
];

struct Scene {
    root: tempfile::TempDir,
    git: PathBuf,
}

/// The different versions of git that are here.
fn gits() -> Vec<PathBuf> {
    let (mut versions, mut gits) = (Vec::new(), Vec::new());
    for dir in std::env::split_paths(&std::env::var_os("PATH").unwrap()) {
        let git = dir.join("git");
        if let Ok(answer) = Command::new(&git).arg("--version").output()
            && answer.status.success()
            && !versions.contains(&answer.stdout)
        {
            versions.push(answer.stdout);
            gits.push(git);
        }
    }
    assert!(!gits.is_empty(), "there is no git");
    gits
}

impl Scene {
    fn new(git: &Path) -> Self {
        let scene = Self {
            root: tempfile::tempdir().unwrap(),
            git: git.to_owned(),
        };
        for name in ["r.git", "fork.git", "p.git"] {
            scene.done(&["init", "-q", "--bare", "-b", "main", name]);
        }
        scene.done(&["init", "-q", "-b", "main", "a"]);
        fs::create_dir(scene.dir().join("a/local")).unwrap();
        let identity = ["-c", "user.name=a", "-c", "user.email=a@b"];
        let commit = ["-C", "a", "commit", "-q", "--allow-empty", "-m", "1"];
        scene.done(&[&identity[..], &commit].concat());
        for (place, name) in [("r.git", "main"), ("r.git", "other"), ("fork.git", "main")] {
            scene.done(&[
                "-C",
                "a",
                "push",
                "-q",
                &format!("../{place}"),
                &format!("main:{name}"),
            ]);
        }
        scene.done(&["-C", "a", "branch", "side"]);
        scene.done(&["init", "-q", "--bare", "-b", "main", "a/local"]);
        scene.done(&[&identity[..], &commit].concat());
        scene
    }

    fn dir(&self) -> &Path {
        self.root.path()
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new(&self.git);
        command.env_clear().env("PATH", self.git.parent().unwrap());
        command
            .env("HOME", self.dir())
            .env("GIT_CONFIG_NOSYSTEM", "1");
        command.current_dir(self.dir()).args(args).output().unwrap()
    }

    fn done(&self, args: &[&str]) {
        let answer = self.run(args);
        assert!(answer.status.success(), "{args:?}: {answer:?}");
    }

    /// Gives the clone these settings.
    fn settings(&self, config: &str) -> GitSettings {
        let config = config.replace("D/", &format!("{}/", self.dir().display()));
        let head = "[core]\nrepositoryformatversion = 0\nbare = false\n";
        fs::write(
            self.dir().join("a/.git/config"),
            format!("{head}{config}\n"),
        )
        .unwrap();
        let answer = self.run(&["-C", "a", "config", "-z", "--get-regexp", ASKED]);
        GitSettings::parse(&answer.stdout)
    }

    fn place(&self, settings: &GitSettings) -> Result<PushPlace, NoPlace> {
        let top = self.dir().join("a");
        find(settings, "main", &|word| top.join(word).is_dir())
    }

    /// The URLs that git pushes to and what the branch is called there; `None` where it refuses, or pushes others.
    fn by_git(&self) -> Option<Vec<(String, Vec<String>)>> {
        let answer = self.run(&["-C", "a", "push", "--dry-run", "--porcelain"]);
        let stdout = String::from_utf8(answer.stdout).unwrap();
        let mut places: Vec<(String, Vec<String>)> = Vec::new();
        for line in stdout.lines() {
            if let Some(url) = line.strip_prefix("To ") {
                places.push((url.to_owned(), Vec::new()));
            } else if let Some((from, to)) =
                line.split('\t').nth(1).and_then(|it| it.split_once(':'))
                && ["refs/heads/main", "HEAD"].contains(&from)
            {
                places.last_mut().unwrap().1.push(to.to_owned());
            }
        }
        let is_refused = String::from_utf8_lossy(&answer.stderr).contains("fatal: ");
        (!is_refused && places.iter().any(|(_, names)| !names.is_empty())).then_some(places)
    }

    /// The settings and both results, where the place is not the one that git pushes to; `None` where it is.
    fn differs(&self, config: &str, is_for_a_person: bool) -> Option<String> {
        let settings = self.settings(config);
        let (ours, gits) = (self.place(&settings), self.by_git());
        let is_same = match (&ours, &gits) {
            (Err(NoPlace::Mirror { .. }), Some(_)) => is_for_a_person,
            (Err(_), None) => !is_for_a_person,
            (Err(_), Some(_)) => is_for_a_person,
            // Nowhere is the branch that a push would change, and would not make.
            (Ok(place), None) => place.must_be_there,
            (Ok(place), Some(gits)) => {
                let is_there = |names: &Vec<String>| {
                    *names == [place.branch.clone()] || (place.must_be_there && names.is_empty())
                };
                let urls: Vec<_> = gits.iter().map(|(url, _)| url).collect();
                !is_for_a_person
                    && urls == place.urls.iter().collect::<Vec<_>>()
                    && gits.iter().all(|(_, names)| is_there(names))
            }
        };
        (!is_same).then(|| format!("{config}\n  here: {ours:?}\n  git: {gits:?}"))
    }
}

fn origin(config: &str) -> String {
    format!(
        "[remote \"origin\"]\nurl = D/r.git\nfetch = +refs/heads/*:refs/remotes/origin/*\n{config}"
    )
}

#[test]
fn the_place_is_where_git_pushes_to() {
    for git in gits() {
        let scene = Scene::new(&git);
        let mut wrong = Vec::new();
        for (rows, is_for_a_person) in [(BESIDE_PLAIN, false), (FOR_A_PERSON, true)] {
            for row in rows {
                wrong.extend(scene.differs(&origin(&format!("{PLAIN}{row}")), is_for_a_person));
            }
        }
        for config in [
            "",
            "[remote \"fork\"]\nurl = D/fork.git\nfetch = +refs/heads/*:refs/remotes/fork/*\n[push]\ndefault = current",
            "[remote \"fork\"]\nurl = D/fork.git\nfetch = +refs/heads/*:refs/remotes/fork/*",
            "[remote \"fork\"]\nfetch = +refs/heads/*:refs/remotes/fork/*\n[push]\ndefault = current",
            "[remote \"a\"]\nurl = D/fork.git\n[remote \"b\"]\nurl = D/p.git\n[push]\ndefault = current",
        ] {
            wrong.extend(scene.differs(config, false));
        }
        assert!(wrong.is_empty(), "{}:\n{}", git.display(), wrong.join("\n"));
    }
}

#[test]
fn the_place_is_where_git_pushes_to_with_any_settings_together() {
    for git in gits() {
        let scene = Scene::new(&git);
        let fork =
            "[remote \"fork\"]\nurl = D/fork.git\nfetch = +refs/heads/*:refs/remotes/fork/*\n";
        let mut wrong = Vec::new();
        let [defaults, branches, remotes, autos] = COMBINED;
        for default in defaults {
            for branch in branches {
                for remote in remotes {
                    for auto in autos {
                        let row = format!("{fork}{default}\n{branch}\n{remote}\n{auto}");
                        wrong.extend(scene.differs(&origin(&row), false));
                    }
                }
            }
        }
        assert!(wrong.is_empty(), "{}:\n{}", git.display(), wrong.join("\n"));
    }
}

#[test]
fn a_copy_here_proves_something_only_where_git_fetches_from_where_it_pushes_to() {
    let scene = Scene::new(&gits()[0]);
    let tracking = |row: &str| {
        let settings = scene.settings(&origin(&format!("{PLAIN}{row}")));
        scene.place(&settings).unwrap().tracking
    };
    let copy = Some("refs/remotes/origin/main".to_owned());
    assert_eq!(tracking(""), copy);
    assert_eq!(tracking("[remote \"origin\"]\npushurl = D/r.git"), copy);
    assert_eq!(tracking("[remote \"origin\"]\npushurl = D/p.git"), None);
    assert_eq!(
        tracking("[remote \"origin\"]\nurl = D/p.git"),
        None,
        "several"
    );
    assert_eq!(tracking("[url \"D/fork\"]\npushInsteadOf = D/r"), None);
    assert_eq!(tracking("[url \"D/fork\"]\ninsteadOf = D/r"), copy);
    assert_eq!(
        tracking("[remote \"origin\"]\nfetch = ^refs/heads/main"),
        None
    );
    assert_eq!(
        tracking("[remote \"origin\"]\npush = main:inbox"),
        Some("refs/remotes/origin/inbox".to_owned())
    );
    let single = "[remote \"o\"]\nurl = D/r.git\nfetch = +refs/heads/x:refs/remotes/o/x\n[push]\ndefault = current";
    assert_eq!(scene.place(&scene.settings(single)).unwrap().tracking, None);
    let mirrored =
        "[remote \"o\"]\nurl = D/r.git\nfetch = +refs/*:refs/*\n[push]\ndefault = current";
    assert_eq!(
        scene.place(&scene.settings(mirrored)).unwrap().tracking,
        None,
        "a branch of people"
    );
}

#[test]
fn what_is_refused_has_its_reason() {
    let scene = Scene::new(&gits()[0]);
    let refused = |config: &str| scene.place(&scene.settings(config)).unwrap_err();
    let plain = |row: &str| refused(&origin(&format!("{PLAIN}{row}")));
    let off = |setting: &str, value: &str| NoPlace::Off {
        setting: setting.to_owned(),
        value: value.to_owned(),
    };
    let name = "no_push";
    assert_eq!(
        plain("[branch \"main\"]\npushRemote = no_push"),
        off("branch.main.pushRemote", name)
    );
    assert_eq!(
        plain("[remote]\npushDefault = no_push"),
        off("remote.pushDefault", name)
    );
    assert_eq!(
        plain("[remote \"origin\"]\npushurl = no_push"),
        off("remote.origin.pushurl", name)
    );
    assert_eq!(
        plain("[url \"no_push\"]\npushInsteadOf = D/r.git"),
        off("url.no_push.pushInsteadOf", name)
    );
    let gone = NoPlace::Gone {
        setting: "branch.main.remote".to_owned(),
        value: "gone".to_owned(),
    };
    assert_eq!(plain("[branch \"main\"]\nremote = gone"), gone);
    assert_eq!(refused(""), NoPlace::NoRemote);
    let remote = || Some("origin".to_owned());
    assert_eq!(
        refused(&origin("")),
        NoPlace::NoUpstream { remote: remote() }
    );
    assert_eq!(
        plain("[branch \"main\"]\nremote = ."),
        NoPlace::UpstreamIsHere { remote: remote() }
    );
    let bare = NoPlace::NoFetch {
        remote: "origin".to_owned(),
        upstream: "main".to_owned(),
    };
    assert_eq!(refused("[remote \"origin\"]\nurl = D/r.git"), bare);
    assert_eq!(
        refused(&format!("[remote \"origin\"]\nurl = D/r.git\n{PLAIN}")),
        bare
    );
}

#[test]
fn the_upstream_is_the_one_that_the_settings_name() {
    let scene = Scene::new(&gits()[0]);
    let of = |config: &str| UpstreamSetting::of(&scene.settings(config), "main");
    let plain = of(&origin(PLAIN)).unwrap();
    assert_eq!(
        (plain.remote.as_str(), plain.branch.as_str()),
        ("origin", "refs/heads/main")
    );
    assert_eq!(plain.tracking.as_deref(), Some("refs/remotes/origin/main"));
    assert!(plain.is_named && plain.url.ends_with("/r.git"));
    let url = of("[branch \"main\"]\nremote = D/r.git\nmerge = refs/heads/x").unwrap();
    assert!(!url.is_named && url.tracking.is_none() && url.branch == "refs/heads/x");
    for config in [
        "[branch \"main\"]\nremote = origin",
        "[branch \"main\"]\nmerge = refs/heads/main",
        "[branch \"main\"]\nremote = .\nmerge = refs/heads/other",
        "[branch \"main\"]\nremote = gone\nmerge = refs/heads/main",
        "[branch \"main\"]\nremote = origin\nmerge = refs/for/main",
        "[branch \"main\"]\nremote = origin\nmerge = refs/heads/a\nmerge = refs/heads/b",
    ] {
        assert_eq!(of(&origin(config)), None, "{config}");
    }
}
