//! The audit trail of an agent.

use beadlock_tests::tool;

use super::play_with;
use crate::setting::{Line, Setting};

const TYPED: &[Line] = &[(
    "contract-audit",
    "beadlock-agent --once --action none --audit audit.jsonl",
)];

#[test]
fn trails() {
    let Some(_) = tool("flock") else { return };
    play_with(&["audit.jsonl"], "agent/audit/free", Setting::free, TYPED);
    play_with(&["audit.jsonl"], "agent/audit/held", Setting::held, TYPED);
    play_with(&["audit.jsonl"], "agent/audit/stale", Setting::stale, TYPED);
    play_with(
        &["audit.jsonl"],
        "agent/audit/elsewhere",
        Setting::elsewhere,
        TYPED,
    );
    play_with(
        &["audit.jsonl"],
        "agent/audit/malformed",
        || Setting::of("{"),
        TYPED,
    );
    play_with(
        &["audit.jsonl"],
        "agent/audit/gate",
        || Setting::free().with_the_gate_shut(),
        TYPED,
    );
}
