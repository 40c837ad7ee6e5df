//! The public names of the two faces, `beadlock-checker` and `beadlock`: what docs.rs shows of them, as text.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use beadlock_tests::skip::checkout;
use beadlock_tests::{Ended, Running, binaries};
use regex::Regex;

use crate::book::Book;

/// Where rustdoc has written the pages of both.
fn documented() -> PathBuf {
    let target = binaries::directory()
        .parent()
        .expect("target/debug is below target")
        .to_owned();
    let mut command = binaries::cargo();
    command.args([
        "doc",
        "--quiet",
        "--locked",
        "--no-deps",
        "--lib",
        "-p",
        "beadlock-checker",
        "-p",
        "beadlock",
    ]);
    command
        .arg("--target-dir")
        .arg(&target)
        .current_dir(checkout());
    // It waits for whatever builds there now.
    let documented = Ended::from(Running::start(command).finish(Duration::from_secs(600)));
    assert_eq!(documented.code, 0, "{documented:?}");
    target.join("doc")
}

/// The pages of all items, below the folder of the crate.
fn pages(dir: &Path) -> Vec<String> {
    let all = fs::read_to_string(dir.join("all.html")).expect("the list of items");
    let link = Regex::new(
        r#"<a href="([a-z_/]*(?:struct|enum|trait|fn|macro|type|constant|static)\.\w+\.html)">"#,
    );
    let pages = link
        .expect("an expression")
        .captures_iter(&all)
        .map(|groups| groups[1].to_owned())
        .collect::<Vec<_>>();
    assert!(
        pages.len() > 10,
        "few items, or the scan sees few: {pages:?}"
    );
    pages
}

/// A page without what every type has from the compiler and the standard library.
fn of_the_crate(html: &str) -> &str {
    let own = html
        .split(r#"<h2 id="synthetic-implementations""#)
        .next()
        .unwrap_or_default();
    own.split(r#"<h2 id="blanket-implementations""#)
        .next()
        .unwrap_or_default()
}

/// A face as text: each item with its declaration, its methods and the traits that are implemented for it.
fn face(dir: &Path) -> String {
    let mut text = String::new();
    for page in pages(dir) {
        let html = fs::read_to_string(dir.join(&page)).expect("the page of an item");
        let name = page.trim_end_matches(".html");
        let (module, name) = name.rsplit_once('/').unwrap_or(("", name));
        let (kind, name) = name.split_once('.').expect("KIND.NAME");
        let module = if module.is_empty() {
            String::new()
        } else {
            module.replace('/', "::") + "::"
        };
        text += &format!("## {kind} {module}{name}\n{}\n", item(&html));
    }
    text
}

/// The declaration of an item in its page.
const DECLARATION: &str = r#"(?s)<pre class="rust item-decl"><code>(.*?)</code></pre>"#;

/// The item of a page.
fn item(html: &str) -> String {
    let own = of_the_crate(html);
    let (own, traits) = own
        .split_once(r#"<h2 id="trait-implementations""#)
        .unwrap_or((own, ""));
    let declaration = Regex::new(DECLARATION).expect("an expression");
    let method = Regex::new(r#"(?s)<h4 class="code-header">(.*?)</h4>"#).expect("an expression");
    let implemented =
        Regex::new(r#"(?s)<h3 class="code-header">(.*?)</h3>"#).expect("an expression");
    let mut text = String::new();
    if let Some(found) = declaration.captures(own) {
        text += &(plain(&found[1]) + "\n");
    }
    for found in method.captures_iter(own) {
        text += &format!("{}\n", on_one_line(&plain(&found[1])));
    }
    for found in implemented
        .captures_iter(traits)
        .map(|found| on_one_line(&plain(&with_paths(&found[1]))))
    {
        // The compiler's own, of each type that can be matched.
        if !found.starts_with("impl StructuralPartialEq") {
            text += &format!("{found}\n");
        }
    }
    text
}

/// With the path of each type that is called `Error` and is the face's or the standard library's. Those of our other
/// crates are links only where a page of theirs has been written before.
fn with_paths(html: &str) -> String {
    let error = Regex::new(
        r#"<a [^>]*title="[a-z]+ ((?:core|std|beadlock|beadlock_checker)::(?:[a-z_]+::)*Error)"[^>]*>Error</a>"#,
    )
    .expect("an expression");
    error.replace_all(html, "$1").into_owned()
}

/// The types of our own crates that a face shows, which have pages of their own on docs.rs.
fn ours() -> BTreeSet<String> {
    let declared =
        Regex::new(r"(?m)^\s*pub (?:struct|enum|trait|type) ([A-Z]\w*)").expect("an expression");
    let mut names = BTreeSet::new();
    let mut folders: Vec<PathBuf> = [
        "checker/base",
        "checker/core",
        "checker/supervise",
        "integration/claim",
        "integration/files",
        "integration/fleet",
    ]
    .iter()
    .map(|folder| checkout().join(folder).join("src"))
    .collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("list the sources").flatten() {
            match entry.path() {
                path if path.is_dir() => folders.push(path),
                path => {
                    let text = fs::read_to_string(&path).expect("a source");
                    names.extend(
                        declared
                            .captures_iter(&text)
                            .map(|found| found[1].to_owned()),
                    );
                }
            }
        }
    }
    names
}

/// Without tags.
fn plain(html: &str) -> String {
    let folded = Regex::new(r"(?s)<summary.*?</summary>").expect("an expression");
    let tag = Regex::new(r"<[^>]*>").expect("an expression");
    let text = folded
        .replace_all(html, "")
        .replace("<div class=\"where", " <div class=\"where")
        .replace("</div>", "</div>\n");
    let text = tag.replace_all(&text, "");
    let named = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&nbsp;", " "),
        ("&amp;", "&"),
    ];
    named.iter().fold(text.into_owned(), |text, (name, sign)| {
        text.replace(name, sign)
    })
}

fn on_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Types of crates of others in declarations, methods and implementations, whose change would be a change of this face: those
/// to which rustdoc has no page here. A name that a declaration makes itself, such as a variant's, is none.
fn foreign(dir: &Path) -> BTreeSet<String> {
    let linked = Regex::new(r#"(?s)<a [^>]*>.*?</a>|<span class="comment">.*?</span>"#)
        .expect("an expression");
    let signature =
        Regex::new(r#"(?s)(?:<h4 class="code-header">|<h3 class="code-header">impl)(.*?)</h[34]>"#);
    let signature = signature.expect("an expression");
    let declaration = Regex::new(DECLARATION).expect("an expression");
    let name = Regex::new(r"\b[A-Z][A-Za-z0-9]+\b").expect("an expression");
    // In a declaration, the types of fields and arguments.
    let typed = Regex::new(r"(?s)(?::|->|\()[^,;{}]*").expect("an expression");
    let mut found = BTreeSet::new();
    for page in pages(dir) {
        let html = fs::read_to_string(dir.join(&page)).expect("the page of an item");
        let own = of_the_crate(&html);
        let mut look = |text: &str| {
            found.extend(name.find_iter(text).map(|name| name.as_str().to_owned()));
        };
        for signature in signature.captures_iter(own) {
            look(&plain(&linked.replace_all(&signature[1], "")));
        }
        for declared in declaration.captures_iter(own) {
            let declared = plain(&linked.replace_all(&declared[1], ""));
            typed
                .find_iter(&declared)
                .for_each(|typed| look(typed.as_str()));
        }
    }
    found.remove("Self");
    let ours = ours();
    found.retain(|name| !ours.contains(name));
    found
}

#[test]
fn faces() {
    let pages = documented();
    let mut book = Book::open("faces");
    for (name, krate) in [
        ("contract-checker", "beadlock_checker"),
        ("contract-beadlock", "beadlock"),
    ] {
        let foreign: Vec<_> = foreign(&pages.join(krate)).into_iter().collect();
        book.pin(
            name,
            &format!(
                "{}## types of other crates\n{}\n",
                face(&pages.join(krate)),
                foreign.join("\n")
            ),
        );
    }
    book.close();
}
