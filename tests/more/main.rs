//! What takes Prometheus, or a terminal that draws: `make test-more` runs these.

mod metrics;
mod prometheus;
mod top;
