//! The programs are in `examples/examples`; run one with `cargo run -p beadlock-examples --example NAME`.
