//! Both programs together, as somebody would use them: the scenes that beadlock exists for, and each row of
//! its contract by a test of the real binary.

mod containers;
mod descriptors;
mod document;
mod drain;
mod exit_codes;
mod first_process;
mod hindered;
mod hold_and_check;
mod killed_at_once;
mod log_report;
mod namespaces;
mod odd;
mod on_call;
mod orphans;
mod prometheus;
mod resume;
mod rows;
mod seed_document;
mod seen_from_outside;
mod snippets;
mod strangers;
mod top;
mod wrong_targets;
