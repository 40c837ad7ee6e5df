//! Messages that repeat: each text once, with how often and when it came.

use serde::Serialize;

use crate::parse::time::LogTime;

/// Most texts that are remembered.
const KEPT: usize = 100;

/// A message and how often it came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RepeatedMessage {
    pub message: String,
    pub count: u64,
    pub first: LogTime,
    pub last: LogTime,
}

/// The latest messages, each once.
#[derive(Debug, Default)]
pub struct RepeatedMessages(Vec<RepeatedMessage>);

impl RepeatedMessages {
    pub fn add(&mut self, message: &str, at: LogTime) {
        if let Some(found) = self.0.iter_mut().find(|found| found.message == message) {
            found.count += 1;
            found.last = at;
            return;
        }
        if self.0.len() == KEPT
            && let Some(oldest) = (0..KEPT).min_by_key(|number| self.0[*number].last)
        {
            self.0.remove(oldest);
        }
        self.0.push(RepeatedMessage {
            message: message.to_owned(),
            count: 1,
            first: at,
            last: at,
        });
    }

    pub fn latest(&self) -> Vec<&RepeatedMessage> {
        let mut all: Vec<&RepeatedMessage> = self.0.iter().collect();
        all.sort_by_key(|found| std::cmp::Reverse(found.last));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_once_and_the_longest_unheard_forgotten() {
        let mut repeats = RepeatedMessages::default();
        for number in 0..1000 {
            repeats.add("again", LogTime(number));
            repeats.add(&number.to_string(), LogTime(number));
        }
        let latest = repeats.latest();
        assert_eq!(latest.len(), KEPT);
        let again = latest
            .iter()
            .find(|found| found.message == "again")
            .unwrap();
        assert_eq!(
            (again.count, again.first, again.last),
            (1000, LogTime(0), LogTime(999))
        );
        assert_eq!(latest.last().unwrap().message, "901");
    }
}
