//! What a cycle's command inherits: its environment, its directory, and the gate.

use super::play_with_logs;
use crate::setting::Setting;

#[test]
fn of_exec() {
    let setting = || {
        let setting = Setting::free()
            .variable("BEADLOCK_AGENT_INTERVAL", "7s")
            .variable("BEADS_DIR", ".beads");
        setting.scene.database("other");
        setting
    };
    play_with_logs(
        "agent/environment",
        setting,
        &[
            (
                "contract-exec",
                "beadlock-agent --once --exec 'env | grep ^BEAD | grep -v SCENE | sort'",
            ),
            (
                "contract-exec-root",
                "beadlock-agent --once --root other --exec 'env | grep ^BEAD | grep -v SCENE | sort'",
            ),
            (
                "contract-directory",
                "beadlock-agent --once --db other/.beads --exec 'pwd; wc -c'",
            ),
            (
                "contract-descriptors",
                "beadlock-agent --once --exec 'for fd in /proc/self/fd/*; do echo ${fd##*/} $(readlink $fd); done | grep beads'",
            ),
            (
                "contract-signals",
                "beadlock-agent --once --exec \"sed -nE 's/^(Sig(Blk|Ign)):.*(....)$/\\1 \\3/p' /proc/self/status\"",
            ),
        ],
    );
}
