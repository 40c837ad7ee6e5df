//! The patterns that make a sentence hard to read.

use std::fmt;

use super::prose::{Prose, Word};

/// A sentence may have this many words.
pub const WORDS: usize = 35;

/// What is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// `who`, `whom` or `whoever` where a noun should stand.
    Who,
    /// `is no X` instead of `is not an X`. `there is no X` is fine.
    IsNo,
    /// `nobody's`, `none of ours`.
    Nobodys,
    /// A sentence of this many words.
    LongSentence(usize),
    /// A line of prose above 120 columns.
    LongLine,
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Who => f.write_str("who as a noun"),
            Self::IsNo => f.write_str("is no X"),
            Self::Nobodys => f.write_str("nobody's"),
            Self::LongSentence(words) => write!(f, "a sentence of {words} words"),
            Self::LongLine => f.write_str("a line above 120 columns"),
        }
    }
}

/// One place where a pattern was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The line of the file, from 1.
    pub line: usize,
    pub pattern: Pattern,
    /// A few words from there on.
    pub text: String,
}

/// Every finding, by line.
pub fn find(prose: &Prose) -> Vec<Finding> {
    let long = prose.long_lines.iter();
    let mut found: Vec<Finding> =
        long.map(|line| Finding { line: *line, pattern: Pattern::LongLine, text: String::new() }).collect();
    for sentence in prose.passages.iter().flat_map(|passage| passage.split_inclusive(ends_sentence)) {
        found.extend(patterns(sentence));
    }
    found.sort_by_key(|finding| finding.line);
    found
}

/// Whether a sentence ends with this word.
fn ends_sentence(word: &Word) -> bool {
    let text = word.text.trim_end_matches(|c| ")]\"'*_”’".contains(c));
    text.ends_with(['.', '!', '?']) && !["e.g.", "i.e.", "cf.", "vs."].contains(&text.trim_start_matches('('))
}

fn patterns(sentence: &[Word]) -> Vec<Finding> {
    let finding = |at: usize, pattern: Pattern| {
        let text = sentence[at..].iter().take(8).map(|word| word.text.replace('\u{a0}', " ")).collect::<Vec<_>>();
        Finding { line: sentence[at].line, pattern, text: text.join(" ") }
    };
    let is_question = sentence.last().is_some_and(|word| word.text.contains('?'));
    let mut found = Vec::new();
    for at in 0..sentence.len() {
        if is_who(sentence, at, is_question) {
            found.push(finding(at, Pattern::Who));
        }
        if is_no(sentence, at) {
            found.push(finding(at, Pattern::IsNo));
        }
        let ours = [at, at + 1, at + 2].map(|at| plain(sentence, at));
        if plain(sentence, at) == "nobody's" || ours == ["none", "of", "ours"] {
            found.push(finding(at, Pattern::Nobodys));
        }
    }
    let count = sentence.iter().filter(|word| word.text.contains(char::is_alphanumeric)).count();
    if count > WORDS {
        found.push(finding(0, Pattern::LongSentence(count)));
    }
    found
}

/// The word in small letters, without the signs that touch it. Empty where there is none.
fn plain(sentence: &[Word], at: usize) -> String {
    let Some(word) = sentence.get(at) else { return String::new() };
    if word.text.contains('`') {
        return "`".to_owned();
    }
    word.text.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase().replace('’', "'")
}

/// Whether `who` at this place is the subject or object of its own clause, with no noun before it.
///
/// `a user who reads` has its noun, `Who reads?` and `it says who reads` are questions.
fn is_who(sentence: &[Word], at: usize, is_question: bool) -> bool {
    const BEFORE: [&str; 14] =
        ["for", "of", "by", "to", "from", "with", "than", "and", "or", "if", "as", "but", "that", "what"];
    let word = plain(sentence, at);
    if word == "whoever" || word == "whomever" {
        return true;
    }
    if (word != "who" && word != "whom") || is_question {
        return false;
    }
    let Some(before) = at.checked_sub(1) else { return true };
    let opens = sentence[at].text.starts_with(['(', '"', '“']);
    // `the user for whom it runs` has a noun before the preposition.
    let is_relative =
        word == "whom" && at >= 3 && ["a", "an", "the", "each", "every"].contains(&plain(sentence, at - 3).as_str());
    opens
        || sentence[before].text.ends_with([';', ':'])
        || (BEFORE.contains(&plain(sentence, before).as_str()) && !is_relative)
}

/// Whether `is no X` begins at this place.
fn is_no(sentence: &[Word], at: usize) -> bool {
    let [be, no, next] = [at, at + 1, at + 2].map(|at| plain(sentence, at));
    let before = at.checked_sub(1).map(|before| plain(sentence, before)).unwrap_or_default();
    // `Is there no X?` has another word between.
    ["is", "are", "was", "were"].contains(&be.as_str())
        && sentence[at].text.ends_with(char::is_alphabetic)
        && no == "no"
        && sentence[at + 1].text.eq_ignore_ascii_case("no")
        && before != "there"
        && !["", "longer", "more", "less", "different", "better", "worse"].contains(&next.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<Pattern> {
        find(&Prose::of_page(text)).into_iter().map(|finding| finding.pattern).collect()
    }

    #[test]
    fn who_without_a_noun_is_found() {
        for text in [
            "Who stands still has to go on to end.",
            "One object a line, for who collects them.",
            "It ends; who waits goes on.",
            "It waits for whom it names.",
            "Lines for users and who reads them.",
            "Whoever reads it is told.",
            "It is given to whoever asks.",
            "It says (who reads knows).",
        ] {
            assert_eq!(found(text), [Pattern::Who], "{text}");
        }
    }

    #[test]
    fn who_with_a_noun_or_in_a_question_is_not_found() {
        for text in [
            "A user who reads it is told.",
            "Another user, who may write, is refused.",
            "Who holds the lock?",
            "What is held, and who holds it?",
            "`beadlock status` says who holds the lock.",
            "It shows who waits, since when and why.",
            "The user for whom it runs owns it.",
            "Type `who` or `echo for who`.",
            "The list of the who-is-who.",
        ] {
            assert_eq!(found(text), [], "{text}");
        }
    }

    #[test]
    fn is_no_x_is_found() {
        for text in [
            "The file is no database.",
            "These are no locks.",
            "That was no `EBUSY`.",
            "It\nis no\nlock.",
            "A socket is no lock, there is no more.",
        ] {
            assert_eq!(found(text), [Pattern::IsNo], "{text}");
        }
        for text in [
            "The file is not a database.",
            "The lock is no longer held.",
            "There is no lock.",
            "Where there are no databases it ends.",
            "It is no more than a name.",
            "The answer is no.",
            "It stays as it is: no link is followed.",
            "The answer is no, as before.",
            "`it is no code`",
        ] {
            assert_eq!(found(text), [], "{text}");
        }
    }

    #[test]
    fn nobodys_is_found() {
        assert_eq!(found("A file that is nobody's."), [Pattern::Nobodys]);
        assert_eq!(found("It is none of ours."), [Pattern::Nobodys]);
        assert_eq!(found("Nobody holds it, and none of our files."), []);
    }

    #[test]
    fn a_sentence_may_have_35_words() {
        let long = |count: usize| vec!["w"; count].join(" ");
        assert_eq!(found(&format!("{}.", long(35))), []);
        assert_eq!(found(&format!("{}.", long(36))), [Pattern::LongSentence(36)]);
        let one_a_line = |count: usize| vec!["w"; count].join("\n");
        assert_eq!(found(&one_a_line(36)), [Pattern::LongSentence(36)]);
        // Two sentences, two items, two cells, and a code span for many words.
        for page in [
            format!("{}.\n{}.", one_a_line(30), one_a_line(30)),
            format!("- {}\n- {}", one_a_line(30), one_a_line(30)),
            format!("| {} | {} |", long(30), long(30)),
            format!("{}\n`{}`", one_a_line(30), long(15)),
            format!("{}\n[{}](a.html)", one_a_line(30), long(15)),
            format!("{}?)\n{}", one_a_line(30), one_a_line(30)),
        ] {
            assert_eq!(found(&page), [], "{page}");
        }
        assert_eq!(found(&format!("{}\ne.g. {}", one_a_line(20), long(18))), [Pattern::LongSentence(39)]);
    }

    #[test]
    fn a_finding_says_its_line_and_its_words() {
        let findings = find(&Prose::of_page("# Head\n\nA file\nis no lock, though it looks like one, at once.\n"));
        let expected =
            Finding { line: 4, pattern: Pattern::IsNo, text: "is no lock, though it looks like one,".to_owned() };
        assert_eq!(findings, [expected]);
    }
}
