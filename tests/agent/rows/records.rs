//! Record files that both sides change.

use crate::play::{Row, play};

/// `edit ID MEMBER VALUE TIME [FILE]`: a member of a record, and its time.
const EDIT: &str = r#"edit() { sed -i "s/^\({\"id\":\"$1\".*\)\"$2\":\"[^\"]*\"\(.*\"updated_at\":\"\)[^\"]*\"/\1\"$2\":\"$3\"\2$4\"/" "${5:-$db}"; }
"#;

fn row(name: &'static str, set_up: &str) -> Row {
    let set_up: &'static str = Box::leak(format!("{EDIT}{set_up}").into_boxed_str());
    Row {
        name,
        set_up,
        ..Row::SYNCED
    }
}

#[test]
fn both_sides_come_together() {
    play(&[
        Row {
            truth: "at_place; both bd-13 bd-14 bd-01",
            ..row("both clones append", "there 'append bd-14'; append bd-13")
        },
        Row {
            truth: "at_place; both bd-13 bd-14; grep -q Merged .beads/daemon.log",
            ..row(
                "both clones append the same record and one each",
                "there 'append bd-14; append bd-15'; append bd-15; append bd-13",
            )
        },
        Row {
            truth: "at_place; [ \"$(grep -c . $db)\" = 12 ]; grep -q '\"title\":\"here\"' $db; grep -q '\"title\":\"there\"' $db",
            ..row(
                "each changes another record",
                "there 'edit bd-03 title there 2026-02-01T00:00:00Z'; edit bd-04 title here 2026-02-01T00:00:00Z",
            )
        },
        Row {
            truth: "at_place; grep bd-03 $db | grep -q '\"title\":\"newer\"'; grep -q 'by updated_at: bd-03 title' .beads/daemon.log",
            ..row(
                "both change one member, and one is newer",
                "there 'edit bd-03 title newer 2026-02-02T00:00:00Z'; edit bd-03 title older 2026-02-01T00:00:00Z",
            )
        },
        Row {
            truth: "at_place; both bd-03; grep -q 'bd-03: changed at the remote, deleted here: kept' .beads/daemon.log",
            ..row(
                "deleted here, changed there",
                "there 'edit bd-03 title there 2026-02-02T00:00:00Z'; sed -i /bd-03/d $db",
            )
        },
        Row {
            truth: "at_place; both bd-13 bd-14",
            ..row(
                "a driver that nobody has set up",
                "there 'echo \"*.jsonl merge=beads\" >.gitattributes'; git pull -q; there 'append bd-14'; append bd-13",
            )
        },
        Row {
            truth: "at_place .beads/notes.jsonl; both bd-14; place .beads/notes.jsonl | grep -q n-1",
            ..row(
                "renamed there, appended here",
                "append n-0 .beads/memo.jsonl; append m-0 .beads/memo.jsonl; git add .beads; git commit -qm memo; git push -q; \
                 there 'git mv .beads/memo.jsonl .beads/notes.jsonl; append bd-14'; append n-1 .beads/memo.jsonl",
            )
        },
    ]);
}

#[test]
fn what_nobody_can_decide_holds_back_its_record_alone() {
    play(&[
        Row {
            state: "local_only",
            why: &[
                "bd-03: both sides changed title (\"here\" here, \"there\" at the remote)",
                "issues.jsonl.mine",
            ],
            typed: "grep -q '\"title\":\"there\"' $db; grep -q '\"title\":\"here\"' $db.mine; both bd-13 bd-14; \
                sed -i 's/\"title\":\"there\"/\"title\":\"agreed\"/' $db",
            truth: "at_place; grep -q agreed $db; [ ! -e $db.mine ]",
            ..row(
                "both change one member in one instant, and the person edits it",
                "there 'edit bd-03 title there 2026-02-01T00:00:00Z; append bd-14'; \
                 edit bd-03 title here 2026-02-01T00:00:00Z; append bd-13",
            )
        },
        Row {
            state: "local_only",
            why: &["bd-13 was made twice, for two things; give one another id"],
            typed: "grep -q else $db; rm $db.mine",
            truth: "at_place",
            ..row(
                "one id for two things, and the person removes theirs",
                "there 'echo \"{\\\"id\\\":\\\"bd-13\\\",\\\"title\\\":\\\"else\\\",\\\"created_at\\\":\\\"2026-03-03T00:00:00Z\\\"}\" >>$db'; append bd-13",
            )
        },
    ]);
}

#[test]
fn a_program_that_had_read_before_a_pull_deletes_nothing() {
    play(&[
        Row {
            set_up: "cp $db ../mem; there 'append bd-13; append bd-14'; touch ../pulled",
            typed: "both bd-13 bd-14; { cat ../mem; echo '{\"id\":\"bd-15\"}'; } >../t; mv ../t $db",
            truth: "at_place; both bd-13 bd-14 bd-15; grep -q 'a program wrote old contents over bd-13 and bd-14' .beads/daemon.log",
            ..row("a program writes what it had read", "")
        },
        Row {
            set_up: "cp $db ../mem; there 'sed -i s/\\\"title\\\":\\\"bd-05\\\"/\\\"title\\\":\\\"new\\\"/ $db'",
            typed: "{ cat ../mem; echo '{\"id\":\"bd-15\"}'; } >../t; mv ../t $db",
            truth: "at_place; both bd-15; grep bd-05 $db | grep -q new",
            ..row("the same with an edit", "")
        },
    ]);
}
