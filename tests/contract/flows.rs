//! Commands that belong together: a claim over several commands, one inside another, one that is lost.

use beadlock_tests::tool;

use crate::setting::{Setting, play};

#[test]
fn a_claim_over_several_commands() {
    let Some(_) = tool("jq") else { return };
    play(
        "flows/acquire",
        Setting::free,
        &[
            (
                "contract-acquire",
                "beadlock acquire --holder ci; beadlock -q release --id \"$(jq -r .beadlock.id .beads/.exclusive-lock)\"; ls -A .beads",
            ),
            (
                "contract-acquire-to-a-file",
                "beadlock -q acquire --holder ci >env; cat env; . ./env; beadlock release --id \"$BEADLOCK_ID\"",
            ),
            (
                "acquire-eval",
                "eval \"$(beadlock acquire --holder ci)\"; export BEADLOCK_ID; beadlock release; echo $?",
            ),
            (
                "acquire-detach",
                "eval \"$(beadlock acquire --detach --max-hold 1h --holder ci)\"; beadlock status; beadlock release --id \"$BEADLOCK_ID\"",
            ),
            (
                "acquire-renew",
                "eval \"$(beadlock -q acquire --detach --max-hold 1h --holder ci)\"; beadlock renew --max-hold 2h; beadlock -q release; beadlock renew",
            ),
            (
                "contract-renew-json",
                "eval \"$(beadlock -q acquire --detach --max-hold 1h --holder ci)\"; beadlock -q renew --json; beadlock -q release",
            ),
            (
                "renew-of-a-process",
                "eval \"$(beadlock -q acquire --holder ci)\"; beadlock renew; beadlock -q release",
            ),
            (
                "acquire-twice",
                "eval \"$(beadlock acquire --holder ci)\"; export BEADLOCK_ID; beadlock acquire --no-wait; beadlock release",
            ),
            (
                "acquire-hold-nested",
                "eval \"$(beadlock acquire --holder ci)\"; export BEADLOCK_ID; beadlock hold -- echo work; beadlock -q release",
            ),
            (
                "acquire-cycle",
                "eval \"$(beadlock -q acquire --holder ci)\"; export BEADLOCK_ID; beadlock cycle -- echo work; beadlock -q release",
            ),
            (
                "acquire-fails-in-a-pipe",
                "beadlock acquire nowhere/.beads | cat",
            ),
            (
                "release-twice",
                "eval \"$(beadlock -q acquire --holder ci)\"; beadlock release --id $BEADLOCK_ID; beadlock release --id $BEADLOCK_ID",
            ),
            (
                "release-other-holder",
                "eval \"$(beadlock -q acquire --holder ci)\"; rm .beads/.exclusive-lock; beadlock release --id $BEADLOCK_ID",
            ),
            (
                "contract-audit",
                "beadlock -q acquire --holder ci --audit audit.jsonl >env; . ./env; beadlock -q release --id $BEADLOCK_ID --audit audit.jsonl; cat audit.jsonl",
            ),
        ],
    );
}

#[test]
fn one_inside_another() {
    play(
        "flows/nested",
        Setting::free,
        &[
            ("hold-hold", "beadlock hold -- beadlock hold -- echo work"),
            ("hold-cycle", "beadlock hold -- beadlock cycle -- true"),
            ("cycle-hold", "beadlock cycle -- beadlock hold -- true"),
            ("cycle-cycle", "beadlock cycle -- beadlock cycle -- true"),
            ("hold-check", "beadlock hold -- beadlock check"),
            (
                "hold-file-hold-file",
                "beadlock hold file:x -- beadlock hold file:x -- echo work",
            ),
            (
                "hold-several",
                "beadlock -q hold .beads --and file:x --and lock:y -- sh -c 'ls -A . .beads'",
            ),
            (
                "hold-several-report",
                "beadlock -q hold --report report.json .beads --and file:x -- true; cat report.json",
            ),
            (
                "hold-status",
                "beadlock -q hold --holder ci -- beadlock status",
            ),
        ],
    );
}

#[test]
fn one_that_is_lost() {
    play(
        "flows/lost",
        Setting::free,
        &[
            (
                "lost-removed",
                "beadlock hold --holder ci -- sh -c 'rm .beads/.exclusive-lock; exec sleep 60'",
            ),
            (
                "lost-warn",
                "beadlock hold --holder ci --on-loss warn -- sh -c 'rm .beads/.exclusive-lock; exec sleep 1'",
            ),
            (
                "lost-replaced",
                "beadlock hold --holder ci -- sh -c 'echo \"{\" >.beads/new; mv .beads/new .beads/.exclusive-lock; exec sleep 60'",
            ),
            (
                "lost-broken",
                "beadlock -q hold --holder ci -- sh -c 'beadlock -q break --holder ci --even-if-live; exec sleep 60'",
            ),
            (
                "lost-file",
                "beadlock hold file:x -- sh -c 'rm x.lock; exec sleep 60'",
            ),
            (
                "contract-lost-audit",
                "beadlock -q hold --holder ci --audit audit.jsonl -- sh -c 'rm .beads/.exclusive-lock; exec sleep 60'; cat audit.jsonl",
            ),
            (
                "contract-lost-report",
                "beadlock -q hold --holder ci --report report.json -- sh -c 'rm .beads/.exclusive-lock; exec sleep 60'; cat report.json",
            ),
        ],
    );
}

/// A line that has three versions of a record file, as short as they can be, and merges them.
macro_rules! merges {
    ($line:literal) => {
        concat!(
            r#"one() { printf '{"id":"bd-1","title":"%s","updated_at":"2026-01-0%sT00:00:00Z"}\n' "$1" "$2"; }; "#,
            "one a 1 >base; one b 2 >ours; one c 2 >theirs; ",
            $line
        )
    };
}

#[test]
fn a_merge_of_record_files() {
    if tool("git").is_none() {
        return;
    }
    play(
        "flows/merge",
        Setting::free,
        &[
            (
                "contract-merge",
                merges!(
                    r#"cp base theirs; echo '{"id":"bd-2"}' >>theirs; beadlock merge base ours theirs; echo $?; cat ours"#
                ),
            ),
            (
                "contract-merge-conflict",
                merges!("beadlock merge base ours theirs .beads/issues.jsonl; echo $?; cat ours"),
            ),
            (
                "contract-merge-labels",
                merges!(
                    "beadlock merge base ours theirs --ours here --theirs there --marker-size 9; cat ours"
                ),
            ),
            (
                "contract-merge-missing",
                merges!("rm theirs; beadlock merge base ours theirs; echo $?; cat ours"),
            ),
            (
                "setup-git",
                r#"git init -q; own() { sed -e 's/\.driver .*/.driver …/' -e 's/(git [0-9].*)/(git VERSION)/'; }; beadlock setup git --local | own; git config --local --get-regexp 'merge.*' | own; beadlock setup git --local | own"#,
            ),
            ("setup-git-outside", "beadlock setup git --local"),
        ],
    );
}
