//! Whether a named test is there, found in the sources without building anything.

use std::fs;
use std::path::{Path, PathBuf};

use super::named::{Named, Target, folder};

/// Nothing, or why there is no such test that runs. `top` is the checkout.
pub fn look_for(top: &Path, named: &Named) -> Result<(), String> {
    // Files are said as they lie in the checkout.
    look(top, named).map_err(|why| why.replace(&format!("{}/", top.display()), ""))
}

fn look(top: &Path, named: &Named) -> Result<(), String> {
    match named {
        Named::Cargo {
            package,
            target,
            path,
        } => {
            let folder = top.join(folder(package));
            let (name, modules) = match path.rsplit_once("::") {
                Some((modules, name)) => (name, modules.split("::").collect()),
                None => (path.as_str(), Vec::new()),
            };
            let root = root(&folder, target)?;
            let file = file_of(root.clone(), &modules)?;
            let text = read(&file)?;
            if has_test(&text, name) || tells_stories(&text) && has_test(&read(&root)?, name) {
                return Ok(());
            }
            Err(format!(
                "there is no test {name} that runs in {}",
                file.display()
            ))
        }
        Named::Bats { file, name } => {
            let wanted = format!("@test \"{name}\" {{");
            if read(&top.join(file))?
                .lines()
                .any(|line| line.trim_end() == wanted)
            {
                return Ok(());
            }
            Err(format!("{file} has no line {wanted}"))
        }
        Named::Python { file, name } => {
            let wanted = format!("def {name}(");
            if read(&top.join(file))?
                .lines()
                .any(|line| line.starts_with(&wanted))
            {
                return Ok(());
            }
            Err(format!("{file} has no line {wanted}"))
        }
    }
}

/// True when the source has `fn name` as a test that runs: `#[test]` among its attributes, and no `#[ignore`.
fn has_test(source: &str, name: &str) -> bool {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let begin = format!("fn {name}()");
    let is_run = |at: usize| {
        let attributes: Vec<_> = lines[..at]
            .iter()
            .rev()
            .take_while(|line| line.starts_with("#["))
            .collect();
        attributes.contains(&&"#[test]") && !attributes.iter().any(|line| line.contains("ignore"))
    };
    (0..lines.len()).any(|at| lines[at].starts_with(&begin) && is_run(at))
}

/// True when the source makes its tests by the macro `stories!`, which is in the file that the binary begins with.
fn tells_stories(source: &str) -> bool {
    source.lines().any(|line| line.starts_with("stories!("))
}

/// The file that a test binary begins with.
fn root(folder: &Path, target: &Target) -> Result<PathBuf, String> {
    let name = match target {
        Target::Lib => return Ok(folder.join("src/lib.rs")),
        Target::Test(name) => name,
    };
    // A package may say where its targets begin.
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
    let named = format!("[[test]]\nname = \"{name}\"\npath = \"");
    let said = manifest
        .split_once(&named)
        .and_then(|(_, rest)| rest.split('"').next());
    let usual = folder.join("tests").join(name).join("main.rs");
    let files = [
        said.map(|path| folder.join(path)),
        Some(folder.join(format!("tests/{name}.rs"))),
        Some(usual.clone()),
    ];
    let found = files.into_iter().flatten().find(|file| file.is_file());
    found.ok_or(format!("there is no {}", usual.display()))
}

/// The file that these modules, one in the other, end in. A module in braces is in the file of the one around it.
fn file_of(root: PathBuf, modules: &[&str]) -> Result<PathBuf, String> {
    let mut file = root.clone();
    // Where the modules of `file` are.
    let mut dir = root.parent().map(Path::to_path_buf).unwrap_or_default();
    for module in modules {
        let text = read(&file)?;
        let declares = |end: &str| {
            let line = format!("mod {module}{end}");
            let seen = |prefix: &str| {
                text.lines()
                    .any(|found| found.trim().strip_prefix(prefix) == Some(&line))
            };
            ["", "pub ", "pub(crate) "].into_iter().any(seen)
        };
        if declares(";") {
            let candidates = [
                dir.join(format!("{module}.rs")),
                dir.join(module).join("mod.rs"),
            ];
            file = candidates
                .into_iter()
                .find(|file| file.is_file())
                .ok_or(format!(
                    "{} has no file for its mod {module}",
                    file.display()
                ))?;
        } else if !declares(" {") {
            return Err(format!("{} has no mod {module}", file.display()));
        }
        dir.push(module);
    }
    Ok(file)
}

fn read(file: &Path) -> Result<String, String> {
    fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A checkout with a test in each of the places where one may be.
    fn checkout() -> tempfile::TempDir {
        let top = tempfile::tempdir().expect("a directory");
        let test = |name: &str| format!("#[test]\nfn {name}() {{\n}}\n");
        for (file, text) in [
            ("checker/core/src/lib.rs", "pub mod record;\n".to_owned()),
            (
                "checker/core/src/record/mod.rs",
                "pub mod tower;\n".to_owned(),
            ),
            (
                "checker/core/src/record/tower/mod.rs",
                "mod judge;\nmod name;\n".to_owned(),
            ),
            (
                "checker/core/src/record/tower/judge.rs",
                format!("#[cfg(test)]\nmod tests {{\n{}}}\n", test("fresh")),
            ),
            (
                "checker/core/src/record/tower/name.rs",
                "#[cfg(test)]\nmod tests;\n".to_owned(),
            ),
            ("checker/core/src/record/tower/name/tests.rs", test("short")),
            (
                "checker/core/src/record/tower/loose.rs",
                test("compiled_by_nobody"),
            ),
            ("checker/tests/tower.rs", test("stolen")),
            (
                "integration/cli/tests/tower/main.rs",
                "#[cfg(test)]\nmod hold;\n".to_owned(),
            ),
            (
                "integration/cli/tests/tower/hold.rs",
                format!("#[ignore]\n{}{}", test("later"), test("now")),
            ),
            (
                "tests/tests/conformance/main.rs",
                format!(
                    "macro_rules! stories {{\n{}}}\nmod tower;\nmod silent;\n",
                    test("stale")
                ),
            ),
            (
                "tests/tests/conformance/tower.rs",
                "stories!(TOWER);\n".to_owned(),
            ),
            (
                "tests/tests/conformance/silent.rs",
                "// stories!(SILENT);\n".to_owned(),
            ),
            (
                "integration/shell/a.bats",
                "@test \"a b\" {\n}\n# @test \"c\" {\n".to_owned(),
            ),
            (
                "integration/python/tests/test_a.py",
                "def test_a(scene: Scene) -> None:\n    def test_b():\n".to_owned(),
            ),
        ] {
            let file = top.path().join(file);
            fs::create_dir_all(file.parent().expect("a folder")).expect("make it");
            fs::write(file, text).expect("write it");
        }
        top
    }

    #[test]
    fn a_test_is_one_only_if_it_runs() {
        assert!(has_test("#[test]\nfn a() {\n", "a"));
        assert!(!has_test("#[test]\n#[ignore]\nfn a() {\n", "a"));
        assert!(!has_test("// #[test]\nfn a() {\n", "a"));
        assert!(!has_test("#[test]\nfn ab() {\n", "a"));
    }

    fn look_for_text(top: &Path, text: &str) -> Result<(), String> {
        look_for(top, &text.parse().expect("a name"))
    }

    #[test]
    fn a_test_is_found_wherever_modules_may_be() {
        let top = checkout();
        for text in [
            "beadlock-core lib record::tower::judge::tests::fresh",
            "beadlock-core lib record::tower::name::tests::short",
            "beadlock-checker tests/tower stolen",
            "beadlock-cli tests/tower hold::now",
            "beadlock-tests tests/conformance tower::stale",
            "integration/shell/a.bats: a b",
            "integration/python/tests/test_a.py: test_a",
        ] {
            assert_eq!(look_for_text(top.path(), text), Ok(()), "{text}");
        }
    }

    #[test]
    fn what_would_not_run_is_not_found() {
        let top = checkout();
        for (text, said) in [
            (
                "beadlock-core lib record::tower::judge::tests::stale",
                "no test stale",
            ),
            (
                "beadlock-core lib record::tower::loose::compiled_by_nobody",
                "no mod loose",
            ),
            ("beadlock-core lib record::beads::tests::a", "no mod beads"),
            (
                "beadlock-checker tests/tower stole",
                "no test stole that runs in checker/tests/tower.rs",
            ),
            ("beadlock-cli tests/tower hold::later", "no test later"),
            (
                "beadlock-cli tests/hold now",
                "there is no integration/cli/tests/hold/main.rs",
            ),
            (
                "beadlock-tests tests/conformance tower::fresh",
                "no test fresh",
            ),
            (
                "beadlock-tests tests/conformance silent::stale",
                "no test stale",
            ),
            ("integration/shell/a.bats: a", "has no line"),
            ("integration/shell/a.bats: c", "has no line"),
            ("integration/shell/b.bats: a b", "b.bats"),
            (
                "integration/python/tests/test_a.py: test",
                "has no line def test(",
            ),
            ("integration/python/tests/test_a.py: test_b", "has no line"),
        ] {
            let found = look_for_text(top.path(), text).expect_err(text);
            assert!(found.contains(said), "{text}: {found}");
        }
    }
}
