//! Commands for a person to paste into a shell. One function, [`to_type`], makes every line that says what to type.
//!
//! Names in such a line come from files, from git and from other users. The template is a constant of the program; each
//! name is quoted so that any POSIX shell reads it back byte by byte and runs nothing else. Words that need no quotes
//! have none.
//!
//! # Limits
//! A shell drops line breaks at the end of `"$(printf …)"`. [`to_type`] gives no command for a name that ends so.

use std::{borrow::Cow, ffi::OsStr, ffi::OsString, os::unix::ffi::OsStrExt, path::Path};

use crate::escape::is_harmless;

/// A value for one `{}` in the template of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part<'a> {
    /// A path; `./` goes before one that a program would take for an option.
    Path(&'a Path),
    /// Any other name. One that begins with a dash is fit only behind a `--`.
    Word(&'a OsStr),
    /// An option and its value: `--id ID`, or `--id=-x` where the value looks like an option.
    Value(&'static str, &'a OsStr),
    /// Several paths.
    Paths(Vec<&'a Path>),
    /// Words that may be options on purpose, such as those of the user's own command line.
    Words(Vec<OsString>),
    /// A PID.
    Pid(i64),
}

impl Part<'_> {
    /// [`Part::Path`] as an owned value.
    pub fn of_path(path: &Path) -> Part<'static> {
        Part::Words(vec![undashed(path).into_owned()])
    }

    fn words(&self) -> Vec<Cow<'_, OsStr>> {
        match self {
            Self::Path(path) => vec![undashed(path)],
            Self::Word(word) => vec![Cow::Borrowed(word)],
            Self::Value(option, value) if is_dashed(value) => {
                let mut glued = OsString::from(option);
                glued.push("=");
                glued.push(value);
                vec![Cow::Owned(glued)]
            }
            Self::Value(option, value) => vec![OsStr::new(option).into(), Cow::Borrowed(value)],
            Self::Paths(paths) => paths.iter().map(|path| undashed(path)).collect(),
            Self::Words(words) => words
                .iter()
                .map(|word| Cow::Borrowed(word.as_os_str()))
                .collect(),
            Self::Pid(pid) => vec![Cow::Owned(pid.to_string().into())],
        }
    }
}

/// A command that can be pasted: `template`, with each `{}` replaced by its part, quoted. Where that cannot be done,
/// the words say why there is no command.
///
/// ```
/// use beadlock_base::shell::{Part, to_type};
/// let dir = std::path::Path::new("/srv/it's");
/// assert_eq!(to_type("git -C {} pull", &[Part::Path(dir)]), r"git -C '/srv/it'\''s' pull");
/// ```
pub fn to_type(template: &'static str, parts: &[Part<'_>]) -> String {
    let mut pieces = template.split("{}");
    let mut line = pieces.next().unwrap_or_default().to_owned();
    let mut parts = parts.iter();
    for piece in pieces {
        let Some(part) = parts.next() else {
            return none("a part of it is missing");
        };
        let words = part.words();
        let may_be_dashed = matches!(part, Part::Words(_)) || line.contains(" -- ");
        if !may_be_dashed && matches!(part, Part::Word(word) if is_dashed(word)) {
            return none(
                "a name in it begins with a dash, and the program would take it for an option",
            );
        }
        if words.iter().any(|word| word.as_bytes().ends_with(b"\n")) {
            return none("a name in it ends in a line break, which a shell drops");
        }
        let words: Vec<_> = words.iter().map(|word| quoted(word)).collect();
        // A part without words takes its space with it.
        if words.is_empty() && line.ends_with(' ') {
            line.pop();
        }
        line.push_str(&words.join(" "));
        line.push_str(piece);
    }
    line
}

/// What to do about a directory that does not exist: `make it first: mkdir -p run`.
pub fn make_directory(dir: &Path) -> String {
    if dir.iter().any(|part| part == "~") {
        return "a shell leaves a ~ as it is there, so type $HOME for it".to_owned();
    }
    format!(
        "make it first: {}",
        to_type("mkdir -p {}", &[Part::Path(dir)])
    )
}

/// Why there is no command. Pasted, it is a comment.
fn none(why: &str) -> String {
    format!("# no command to paste: {why}")
}

fn is_dashed(word: &OsStr) -> bool {
    word.as_bytes().first() == Some(&b'-')
}

fn undashed(path: &Path) -> Cow<'_, OsStr> {
    if is_dashed(path.as_os_str()) {
        return Cow::Owned(Path::new(".").join(path).into_os_string());
    }
    Cow::Borrowed(path.as_os_str())
}

/// A word that a POSIX shell reads back as it is, byte by byte, on one line. A byte that would be invisible, or would
/// move the cursor, is written as octal digits in `"$(printf '…')"`.
///
/// A shell drops line breaks at the end of that. A word that ends so is `$'…'`: some older shells read another word,
/// but none runs anything.
pub fn quoted(word: &OsStr) -> String {
    let bytes = word.as_bytes();
    // zsh reads `=ls` as the path of `ls`.
    let is_bare = !bytes.is_empty() && bytes.iter().all(is_plain) && bytes.first() != Some(&b'=');
    match word.to_str() {
        Some(text) if is_bare => text.to_owned(),
        Some(text) if text.chars().all(is_harmless) => format!("'{}'", text.replace('\'', r"'\''")),
        _ if bytes.ends_with(b"\n") => format!("$'{}'", octal(bytes)),
        _ => {
            // The first argument of printf is a format.
            let end_of_options = if is_dashed(word) { "-- " } else { "" };
            format!(
                "\"$(printf {end_of_options}'{}')\"",
                octal(bytes).replace('%', "%%")
            )
        }
    }
}

/// A word that means nothing but itself to any shell, and is not empty.
pub fn is_plain_word(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| is_plain(&byte))
}

fn is_plain(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_./:=@%+,".contains(byte)
}

/// Only plain bytes and spaces stand for themselves: neither quote, nor what an interactive shell expands in quotes.
fn octal(bytes: &[u8]) -> String {
    let shown = |byte: &u8| match *byte {
        byte if is_plain(&byte) || byte == b' ' => char::from(byte).to_string(),
        byte => format!("\\{byte:03o}"),
    };
    bytes.iter().map(shown).collect()
}

/// A path that is not an option, quoted.
pub fn quoted_path(path: &Path) -> String {
    quoted(&undashed(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_word_survives_a_shell() {
        for (word, shell) in [
            ("make", "make"),
            ("a b", "'a b'"),
            ("it's", r"'it'\''s'"),
            ("", "''"),
            ("$(x)", "'$(x)'"),
            ("=ls", "'=ls'"),
            ("~", "'~'"),
            ("a=b", "a=b"),
        ] {
            assert_eq!(quoted(OsStr::new(word)), shell);
        }
        for (word, shell) in [
            (&b"a\nb"[..], r#""$(printf 'a\012b')""#),
            (
                b"it's\xff1\\%d!",
                r#""$(printf 'it\047s\3771\134%%d\041')""#,
            ),
            ("\u{202e}x".as_bytes(), r#""$(printf '\342\200\256x')""#),
            (b"-\x01", r#""$(printf -- '-\001')""#),
            (b"it's\n", r"$'it\047s\012'"),
            ("schön".as_bytes(), "'schön'"),
        ] {
            assert_eq!(quoted(OsStr::from_bytes(word)), shell);
        }
        assert_eq!(quoted_path(Path::new("-x/.beads")), "./-x/.beads");
    }

    #[test]
    fn a_command_has_each_part_quoted() {
        let dir = Path::new("-a b");
        assert_eq!(
            to_type("git -C {} pull", &[Part::Path(dir)]),
            "git -C './-a b' pull"
        );
        let [plain, dashed] = ["x", "-x"].map(OsStr::new);
        assert_eq!(
            to_type("break {}", &[Part::Value("--id", plain)]),
            "break --id x"
        );
        assert_eq!(
            to_type("break {}", &[Part::Value("--id", dashed)]),
            "break --id=-x"
        );
        assert_eq!(
            to_type("ssh -- {} ps -p {}", &[Part::Word(dashed), Part::Pid(7)]),
            "ssh -- -x ps -p 7"
        );
        assert_eq!(
            to_type("hold {} -- CMD", &[Part::Words(Vec::new())]),
            "hold -- CMD"
        );
        assert_eq!(
            to_type("rm {}", &[Part::Paths(vec![dir, Path::new("b")])]),
            "rm './-a b' b"
        );
    }

    #[test]
    fn a_command_that_cannot_be_pasted_is_not_shown() {
        let told = |part| to_type("git switch {}", &[part]);
        assert!(told(Part::Word(OsStr::new("-x"))).contains("begins with a dash"));
        assert!(told(Part::Path(Path::new("x\n"))).contains("ends in a line break"));
        assert!(to_type("git switch {}", &[]).contains("a part of it is missing"));
    }
}
