//! The order of the rooms of each crate, top to bottom, and what is still against it.
//!
//! Rooms on one line do not import each other.

use super::source::Crate;

/// A crate's rooms.
pub struct House {
    /// Its directory.
    pub name: &'static str,
    /// Top to bottom.
    pub order: &'static [&'static [&'static str]],
    /// Arrows that point up or sideways, and are still to be cut. One that is cut must leave this list.
    pub exceptions: &'static [(&'static str, &'static str)],
}

pub const HOUSES: &[House] = &[
    BASE,
    CORE,
    SUPERVISE,
    RECORDS,
    INTEGRATION,
    FLEET,
    AGENT,
    TRUST,
];

const BASE: House = House {
    name: "checker/base",
    order: &[
        &["lib"],
        &["address", "deadline", "git"],
        &["opened"],
        &["closed"],
        &["children", "namespace", "regular"],
        &["error", "process"],
        &["beside", "poll", "shell"],
        &["escape"],
        &[
            "duration",
            "filesystem",
            "mounts",
            "secrets",
            "sys",
            "words",
        ],
    ],
    exceptions: &[],
};

const CORE: House = House {
    name: "checker/core",
    order: &[
        &["lib"],
        &["check"],
        &["take"],
        &["look", "redirect"],
        &["database", "options", "outputs"],
        &["target"],
        &[
            "agent_process",
            "audit",
            "dolt",
            "gate",
            "place",
            "refresh",
            "zombie",
        ],
        &[
            "directory",
            "facts",
            "gate_loss",
            "gates",
            "on_disk",
            "read",
        ],
        &["decision", "watchdog"],
        &["helper_request", "unread"],
        &["dialect", "obstacle"],
        &["log_line", "verdict"],
    ],
    exceptions: &[],
};

const SUPERVISE: House = House {
    name: "checker/supervise",
    order: &[
        &["lib"],
        &["command", "watchdog"],
        &["tree"],
        &["known_process", "runner", "signals"],
    ],
    exceptions: &[],
};

const RECORDS: House = House {
    name: "checker/records",
    order: &[
        &["lib"],
        &["words"],
        &["blemish", "merge", "record_file"],
        &["order"],
        &["keys"],
        &["held", "lines", "members"],
        &["outcome", "time"],
        &["id", "json"],
        &["escape"],
    ],
    exceptions: &[],
};

const INTEGRATION: House = House {
    name: "integration",
    order: &[
        &["lib"],
        &["cli"],
        &["top"],
        &["commands", "fuzzing"],
        &["agent"],
        &["doctor", "list", "log"],
        &["api"],
        &["explain"],
        &["run"],
        &["targets"],
        &["ignored"],
        &["protocol"],
        &["ground"],
        &["claim"],
        &["settings"],
        &["output"],
        &["observe"],
        &["error"],
        &["files"],
        &["words"],
    ],
    exceptions: &[],
};

const FLEET: House = House {
    name: "integration/fleet",
    order: &[
        &["lib"],
        &["admin", "claim", "rights"],
        &["connect", "session"],
        &["transactions"],
        &["etcd"],
        &["config", "keys", "mark"],
        &["deadline", "error", "name", "record", "wait"],
    ],
    exceptions: &[],
};

const AGENT: House = House {
    name: "agent",
    order: &[
        &["lib"],
        &["fuzzing"],
        &["scheduler"],
        &["cycle"],
        &["config", "database"],
        &["command", "roots"],
        &["audit", "diagnostics", "notify", "outside"],
        &["log", "state"],
        &[
            "beside",
            "cycle_end",
            "fleet",
            "limits",
            "outcome",
            "stamp",
            "watch",
        ],
    ],
    exceptions: &[],
};

const TRUST: House = House {
    name: "agent/trust",
    order: &[
        &["lib"],
        &["owner"],
        &["above", "way"],
        &["stamp", "trusted"],
    ],
    exceptions: &[],
};

impl House {
    fn floor(&self, room: &str) -> Option<usize> {
        self.order.iter().position(|line| line.contains(&room))
    }

    /// What is wrong with the crate, line by line.
    pub fn problems(&self, read: &Crate) -> Vec<String> {
        let mut problems = Vec::new();
        for room in self
            .order
            .iter()
            .copied()
            .flatten()
            .filter(|room| !read.rooms.contains(**room))
        {
            problems.push(format!(
                "{room} has a place in the order and does not exist"
            ));
        }
        for room in read.rooms.iter().filter(|room| self.floor(room).is_none()) {
            problems.push(format!("{room} is a room without a place in the order"));
        }
        for ((from, to), places) in &read.arrows {
            let (Some(above), Some(below)) = (self.floor(from), self.floor(to)) else {
                continue;
            };
            let is_known = self.exceptions.contains(&(from.as_str(), to.as_str()));
            if above < below && is_known {
                problems.push(format!(
                    "{from} -> {to} points down: take it off the list of exceptions"
                ));
            } else if above >= below && !is_known {
                let direction = if above == below { "sideways" } else { "up" };
                problems.push(format!(
                    "{from} -> {to} points {direction}: {}",
                    places.join(", ")
                ));
            }
        }
        for (from, to) in self.exceptions {
            if !read
                .arrows
                .contains_key(&((*from).to_owned(), (*to).to_owned()))
            {
                problems.push(format!(
                    "{from} -> {to} is cut: take it off the list of exceptions"
                ));
            }
        }
        problems
    }
}
