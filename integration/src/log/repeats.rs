//! What comes again and again in a log: each text once, how often, from when to when.

use super::time::At;

/// As many texts are remembered.
const KEPT: usize = 100;

/// Something that came often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repeated {
    pub text: String,
    pub count: u64,
    pub first: At,
    pub last: At,
}

/// What came often, each text once; the longest unheard is forgotten.
#[derive(Debug, Default)]
pub struct Repeats(Vec<Repeated>);

impl Repeats {
    /// It came once more.
    pub fn add(&mut self, text: &str, at: At) {
        if let Some(found) = self.0.iter_mut().find(|found| found.text == text) {
            found.count += 1;
            found.last = at;
            return;
        }
        if self.0.len() == KEPT
            && let Some(oldest) = (0..KEPT).min_by_key(|number| self.0[*number].last)
        {
            self.0.remove(oldest);
        }
        self.0.push(Repeated { text: text.to_owned(), count: 1, first: at, last: at });
    }

    /// The latest first.
    pub fn latest(&self) -> Vec<&Repeated> {
        let mut all: Vec<&Repeated> = self.0.iter().collect();
        all.sort_by_key(|found| std::cmp::Reverse(found.last));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_once_and_the_longest_unheard_forgotten() {
        let mut repeats = Repeats::default();
        for number in 0..1000 {
            repeats.add("again", At(number));
            repeats.add(&number.to_string(), At(number));
        }
        let latest = repeats.latest();
        assert_eq!(latest.len(), KEPT);
        let again = latest.iter().find(|found| found.text == "again").unwrap();
        assert_eq!((again.count, again.first, again.last), (1000, At(0), At(999)));
        assert_eq!(latest.last().unwrap().text, "901");
    }
}
